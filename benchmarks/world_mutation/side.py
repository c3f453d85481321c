"""One side of a comparison - the original or its port - and what a probe sees of it.

A probe calls a model in eval mode, with gradients and in train mode, twice each, and notes results,
gradients, random state, buffers and what hooks have logged.  A call that raises is a result too.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, final

import torch
from torch import nn

from benchmarks.world_mutation.families import Family, Shape


def _call(model: nn.Module, arguments: dict[str, Any]) -> Any:
    return model(**arguments)


@final
@dataclass(kw_only=True)
class Side:
    """A model and how it is called now; a change of the world changes any of it.

    Attributes:
        home: the module that the model's class comes from.
        shape: how large the next calls are.
        given: further arguments of the calls, or others instead.
        dropped: arguments that are left out.
        around: makes what stands around every call, such as autocast.
        before: is called with the arguments of every call and returns those that are used.
        log: what hooks have noted.
        further: other ways to use the model, called once after the probe.
        modes: parts of the model that stay in a mode of their own.
    """

    family: Family
    home: ModuleType
    model: nn.Module
    shape: Shape = field(default_factory=Shape)
    given: dict[str, Any] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    before: Callable[[dict[str, Any]], dict[str, Any]] = dict
    call: Callable[[nn.Module, dict[str, Any]], Any] = _call
    log: list[Any] = field(default_factory=list)
    further: list[Callable[[nn.Module, dict[str, Any]], Any]] = field(default_factory=list)
    modes: dict[str, bool] = field(default_factory=dict)
    seed: int = 5

    def arguments(self) -> dict[str, Any]:
        """Return new arguments for one call."""
        found = self.family.inputs(self.shape, getattr(self.model, "config", None))
        found = {key: value for key, value in found.items() if key not in self.dropped}
        return self.before({**found, **{key: _copy(value) for key, value in self.given.items()}})

    def folder(self) -> str:
        """Return a new folder for files."""
        return tempfile.mkdtemp(prefix="world-")


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


@final
@dataclass(kw_only=True)
class Seen:
    """What one call has shown: a result, or the error that it raised."""

    what: str
    error: str = ""
    message: str = ""
    found: Any = None


def seed_all(number: int) -> None:
    """Seed every generator that a model may draw from."""
    import numpy as np

    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


# The modes of a probe, and how often each is called.
EVAL, GRADIENTS, TRAIN = "eval", "gradients", "train"
STATE = "state"
PROBE = (EVAL, EVAL, GRADIENTS, TRAIN, TRAIN)
WARM = (EVAL, EVAL, GRADIENTS, GRADIENTS, TRAIN, TRAIN)


def probe(side: Side, modes: tuple[str, ...] = PROBE) -> Iterator[Seen]:
    """Call a model in several modes, and yield what each call shows."""
    for number, mode in enumerate(modes):
        yield _seen(f"{mode} call {number + 1}", lambda m=mode: _called(side, m))
    for number, each in enumerate(side.further):
        yield _seen(f"use {number + 1}", lambda f=each: _used(side, f))
    yield _seen(STATE, lambda: _state(side))


def _seen(what: str, action: Callable[[], Any]) -> Seen:
    try:
        return Seen(what=what, found=action())
    except Exception as error:
        message = str(error).replace("\n", " ")[:400]
        return Seen(what=what, error=type(error).__qualname__, message=message)


def _called(side: Side, mode: str) -> Any:
    model = side.model
    # Modes that differ between parts of the model are a change of the world: they stay.
    if model.training != (mode == TRAIN):
        model.train(mode == TRAIN)
        for path, training in side.modes.items():
            model.get_submodule(path).train(training)
    arguments = side.arguments()
    with_gradients = mode != EVAL
    if with_gradients and side.family.differentiable:
        for value in arguments.values():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.requires_grad_()
    model.zero_grad(set_to_none=True)
    seed_all(side.seed)
    with warnings.catch_warnings(), torch.set_grad_enabled(with_gradients):
        warnings.simplefilter("ignore")
        with side.around():
            output = side.call(model, arguments)
        found: dict[str, Any] = {"output": output, "random": torch.get_rng_state()}
        found["python random"] = random.getstate()[1]
        if with_gradients and (total := loss_of(output)) is not None:
            total.backward()
            found["gradients"] = {n: p.grad for n, p in model.named_parameters()}
    found["arguments"] = arguments
    found["gradients of inputs"] = {
        key: value.grad
        for key, value in arguments.items()
        if isinstance(value, torch.Tensor) and value.is_leaf
    }
    return found


def _used(side: Side, function: Callable[[nn.Module, dict[str, Any]], Any]) -> Any:
    side.model.eval()
    seed_all(side.seed)
    with warnings.catch_warnings(), side.around():
        warnings.simplefilter("ignore")
        return function(side.model, side.arguments()), torch.get_rng_state()


def _state(side: Side) -> Any:
    model = side.model
    return {
        "state": dict(model.state_dict()),
        "requires_grad": [(n, p.requires_grad) for n, p in model.named_parameters()],
        "modes": [(n, m.training) for n, m in model.named_modules()],
        "log": list(side.log),
    }


def loss_of(output: Any) -> torch.Tensor | None:
    """Return one number from all outputs that have gradients, each weighed otherwise."""
    parts = []
    for item in _tensors(output, set()):
        if item.requires_grad and item.numel() and item.is_floating_point():
            generator = torch.Generator().manual_seed(len(parts))
            weights = torch.randn(item.shape, generator=generator).to(item.dtype)
            parts.append((item * weights).sum().float())
    return torch.stack(parts).sum() if parts else None


def _tensors(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, seen)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, seen)
