"""Changes of the world between two calls: what one is, and all that make sense for a model.

A change is found by looking at the original, and addresses what it changes by path, so that it can be done
to the original and to its port:

    linear bert.pooler.dense exchanged      s.model.bert.pooler.dense = nn.Linear(...)      on both sides

Where the port has no such path, `MissingError` says so, and the change counts as not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import nn

from benchmarks.world_mutation.side import Side


class MissingError(LookupError):
    """What is to be changed is not there."""


@final
@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of the world.

    Attributes:
        group: what kind of change it is.
        name: what is changed, and how.
        apply: does it to one side.
    """

    group: str
    name: str
    apply: Callable[[Side], object]


Found: TypeAlias = Iterator[tuple[str, Callable[[Side], object]]]


def all_changes(side: Side) -> Iterator[Change]:
    """Return the changes that make sense for a model, apart from those of settings."""
    from benchmarks.world_mutation import call_changes, code_changes, part_changes, state_changes

    yield Change(group="repeat", name="the same call again", apply=lambda _: None)
    for make in (
        state_changes.weights, state_changes.precision, state_changes.modes, state_changes.copies,
        part_changes.parts, part_changes.lists, part_changes.hooks,
        call_changes.sizes, call_changes.arguments, call_changes.uses,
        code_changes.functions, code_changes.methods,
    ):  # fmt: skip
        for name, apply in make(side):
            yield Change(group=make.__name__, name=name, apply=apply)


def submodule(side: Side, path: str) -> Any:
    """Return the module at a path.

    Raises:
        MissingError: there is none.
    """
    try:
        return side.model.get_submodule(path)
    except AttributeError as error:
        raise MissingError(path) from error


def put_submodule(side: Side, path: str, module: nn.Module) -> None:
    """Set another module at a path."""
    owner, _, name = path.rpartition(".")
    parent = submodule(side, owner)
    if isinstance(parent, (nn.ModuleList, nn.Sequential)):
        parent[int(name) if name.isdigit() else name] = module
    elif isinstance(parent, nn.ModuleDict):
        parent[name] = module
    else:
        setattr(parent, name, module)


def on(path: str, action: Callable[[Any], object]) -> Callable[[Side], object]:
    """Return a change that does something to the module at a path."""
    return lambda side: action(submodule(side, path))


def exchange(path: str, make: Callable[[Any], nn.Module]) -> Callable[[Side], object]:
    """Return a change that sets another module, made from the one before, at a path."""
    return lambda side: put_submodule(side, path, make(submodule(side, path)))


def put(path: str, name: str, value: Any) -> Callable[[Side], object]:
    """Return a change that sets an attribute of the module at a path; tensors are copied."""

    def apply(side: Side) -> None:
        kept = value.clone() if isinstance(value, torch.Tensor) else value
        setattr(submodule(side, path), name, kept)

    return apply


def aside(**settings: Any) -> Callable[[Side], object]:
    """Return a change of how a model is called: the attributes of its `Side`."""

    def apply(side: Side) -> None:
        for name, value in settings.items():
            setattr(side, name, value)

    return apply


def given(**arguments: Any) -> Callable[[Side], object]:
    """Return a change that gives a model further arguments."""
    return lambda side: side.given.update(arguments)


def firsts(model: nn.Module, wanted: Callable[[nn.Module], bool], most: int = 1) -> list[str]:
    """Return the paths of the first modules of some kind, below the model itself."""
    found = [name for name, module in model.named_modules() if name and wanted(module)]
    return found[:most]


def one_of_each_kind(model: nn.Module, home: str) -> list[tuple[str, nn.Module]]:
    """Return the first module of each class that a file defines."""
    found: dict[type, tuple[str, nn.Module]] = {}
    for name, module in model.named_modules():
        if type(module).__module__ == home:
            found.setdefault(type(module), (name, module))
    return list(found.values())


def scaled(value: Any, factor: float = 1.25) -> Any:
    """Return an output with its first tensor scaled."""
    if isinstance(value, torch.Tensor):
        return value * factor if value.is_floating_point() else value
    if type(value) is tuple and value and isinstance(value[0], torch.Tensor):
        return (scaled(value[0], factor), *value[1:])
    return value
