"""Inputs that come as one: a tuple that a forward takes apart, or a table that it reads by key."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from torch import nn

from flodl_verify.sources.class_sources import class_node
from flodl_verify.values.recipes import Arguments


@final
@dataclass(frozen=True, slots=True)
class Bundle:
    """The parts of one argument: the values of a tuple by the names they get, or those of a table by key."""

    names: tuple[str, ...]
    keyed: bool

    def of(self, values: Sequence[object]) -> object:
        """Return the argument with these values."""
        return dict(zip(self.names, values, strict=True)) if self.keyed else tuple(values)


Bundles = Mapping[str, Bundle]


def bundles_of(model: nn.Module) -> dict[str, Bundle]:
    """Return the arguments of the model's forward that hold several inputs, by name."""
    forward = _forward_of(type(model))
    if forward is None:
        return {}
    found: dict[str, Bundle] = {}
    for argument in (*forward.args.posonlyargs, *forward.args.args)[1:]:
        names = next(_taken_apart(forward, argument.arg), ())
        keys = names or tuple(dict.fromkeys(_keys(forward, argument.arg)))
        if keys:
            found[argument.arg] = Bundle(keys, keyed=not names)
    return found


def flat_names(names: Sequence[str], bundles: Bundles) -> list[str]:
    """Return the names of all inputs, those in bundles by themselves."""
    return [
        inner for name in names for inner in (bundles[name].names if name in bundles else (name,))
    ]


def bundled(arguments: Arguments, names: Sequence[str], bundles: Bundles) -> Arguments:
    """Return the arguments of a call, from the inputs one by one."""
    if not bundles:
        return arguments
    values = iter(arguments[0])
    made: list[object] = []
    for name in names:
        if name in bundles:
            made.append(bundles[name].of([next(values) for _ in bundles[name].names]))
        else:
            made.append(next(values))
    return tuple(made), arguments[1]


def _forward_of(made: type) -> ast.FunctionDef | None:
    for kind in made.__mro__:
        node = None if kind.__module__.startswith("torch.") else class_node(kind)
        for item in node.body if node is not None else []:
            if isinstance(item, ast.FunctionDef) and item.name == "forward":
                return item
    return None


def _taken_apart(forward: ast.FunctionDef, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the names in `a, b, c = name`."""
    for node in ast.walk(forward):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=parts) | ast.List(elts=parts)], value=ast.Name(id=whole)
            ) if whole == name and len(parts) > 1:
                if all(isinstance(part, ast.Name) for part in parts):
                    yield tuple(part.id for part in parts if isinstance(part, ast.Name))


def _keys(forward: ast.FunctionDef, name: str) -> list[str]:
    """Return the keys in `name["key"]`, in the order in which they are read."""
    found = []
    for node in ast.walk(forward):
        match node:
            case ast.Subscript(
                value=ast.Name(id=whole), slice=ast.Constant(value=str(key)), ctx=ast.Load()
            ) if whole == name:
                found.append((node.lineno, node.col_offset, key))
    return [key for *_, key in sorted(found)]
