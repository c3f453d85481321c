"""One model on one side: built, called and trained, with a digest of all that can be seen."""

from __future__ import annotations

import hashlib
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from benchmarks.model_zoo.families import BATCHES, TRAINED, Family, Shape, recognise
from benchmarks.parity.case import attempt, describe, seed_all, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

SECTIONS = (
    "keys",
    "initial",
    "eval",
    "batch",
    "others",
    "train",
    "grads",
    "buffers",
    "losses",
    "weights",
)
BUILD_SEED, CALL_SEED = 0, 5
STEPS, LEARNING_RATE = 3, 0.01


class NoInputError(Exception):
    """The original takes none of the inputs that are known; says what it said to the last one."""


def digest(value: object) -> str:
    """Return a text that is equal for equal bits only: of tensors, containers and objects."""
    known = hashlib.sha256()
    _feed(known, value, 0)
    return known.hexdigest()[:24]


def _feed(known: Any, value: Any, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        plain = plain.to_dense() if plain.layout is not torch.strided else plain
        if plain.is_floating_point():
            # Which of two NaN an addition returns is no property of the program.
            plain = plain.masked_fill(plain.isnan(), math.nan)
        known.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        known.update(plain.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, dict):
        known.update(f"{type(value).__name__} {len(value)}".encode())
        for key, item in value.items():
            known.update(repr(key).encode())
            _feed(known, item, depth + 1)
    elif isinstance(value, list | tuple):
        known.update(f"{type(value).__name__} {len(value)}".encode())
        for item in value:
            _feed(known, item, depth + 1)
    elif isinstance(value, bool | int | float | str | type(None)):
        known.update(repr(value).encode())
    else:
        known.update(type(value).__qualname__.encode())
        if depth < 4 and hasattr(value, "__dict__"):
            _feed(known, vars(value), depth + 1)


def loss_of(output: object) -> torch.Tensor:
    """Return the model's own loss, or the distance of its outputs to fixed noise."""
    scalars = [item for item in tensors(output) if item.requires_grad and not item.dim()]
    if scalars:
        return torch.stack(scalars).sum()
    parts = []
    for item in tensors(output):
        if item.requires_grad and item.numel():
            generator = torch.Generator().manual_seed(len(parts))
            noise = torch.randn(item.shape, generator=generator).to(item.dtype)
            parts.append((item - noise).square().mean())
    return torch.stack(parts).sum()


def fitting(family: Family, model: nn.Module) -> Shape:
    """Return the smallest input that the original takes in both modes.

    Raises:
        NoInputError: it takes none.
    """
    last: BaseException | None = None
    for shape in family.shapes(model):
        _, last = attempt(_try, family, model, shape)
        if last is None:
            return shape
    raise NoInputError(describe(last) if last is not None else "nothing to try")


def _try(family: Family, model: nn.Module, shape: Shape) -> None:
    with torch.no_grad():
        model.eval()(*family.inputs(shape, BATCHES[0], training=False))
        model.train()(*family.inputs(shape, TRAINED, training=True))


def observe(root: Path, name: str, shape: Shape | None, max_params: int) -> dict[str, Any]:
    """Run one model of a project; without a shape, look for one.

    Returns:
        Digests by section, and the size, the classes and the seconds of the model.
    """
    sys.path.insert(0, str(root))
    family = recognise(root)
    model = built(family, name)
    params = sum(item.numel() for item in model.parameters())
    seen: dict[str, Any] = {"name": name, "group": family.group(name), "params": params}
    if params > max_params:
        return {**seen, "skipped": f"{params / 1e6:.0f} million parameters"}
    if shape is None:
        shape = fitting(family, model)
        model = built(family, name)
    started = time.process_time()
    seen |= {"shape": [shape.kind, shape.size], "classes": classes(model, root)}
    seen["sections"] = {**initial(model), **evaluated(family, model, shape)}
    seen["sections"] |= trained(family, model, shape, seen)
    return {**seen, "seconds": round(time.process_time() - started, 2)}


def built(family: Family, name: str) -> nn.Module:
    """Construct a model under the seed."""
    seed_all(BUILD_SEED)
    return family.build(name)


def initial(model: nn.Module) -> dict[str, Any]:
    """Return what the constructor left."""
    state = model.state_dict()
    order = [name for name, _ in model.named_parameters()]
    return {
        "keys": digest([list(state), order, [name for name, _ in model.named_buffers()]]),
        "initial": digest([dict(state), torch.get_rng_state()]),
    }


def evaluated(family: Family, model: nn.Module, shape: Shape) -> dict[str, Any]:
    """Return the outputs in eval mode, with two batch sizes."""
    model.eval()
    found = []
    with torch.no_grad():
        for batch in (*BATCHES, BATCHES[0]):
            seed_all(CALL_SEED)
            output = model(*family.inputs(shape, batch, training=False))
            found.append(digest([output, torch.get_rng_state()]))
        seed_all(CALL_SEED)
        others = digest([family.others(model, shape), torch.get_rng_state()])
    return {"eval": [found[0], found[2]], "batch": found[1], "others": others}


def trained(family: Family, model: nn.Module, shape: Shape, seen: dict[str, Any]) -> Any:
    """Take steps of SGD; return what the first one showed, the losses and the last weights."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    sections: dict[str, Any] = {}
    losses = []
    for step in range(STEPS):
        seed_all(CALL_SEED + step)
        output = model(*family.inputs(shape, TRAINED, training=True))
        draws = torch.get_rng_state()
        loss = loss_of(output)
        optimizer.zero_grad()
        loss.backward()
        losses.append(float(loss.detach()))
        if step == 0:
            sections["train"] = digest([output, draws])
            sections["grads"] = by_name((n, p.grad) for n, p in model.named_parameters())
            sections["buffers"] = by_name(model.named_buffers())
        # Networks fresh from their constructor explode otherwise, and NaN is equal to NaN.
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seen["losses"] = losses
    seen["learns"] = all(map(math.isfinite, losses)) and len(set(losses)) == STEPS
    sections["losses"] = [loss.hex() for loss in losses]
    sections["weights"] = by_name(model.state_dict().items())
    return sections


def by_name(pairs: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Return a digest for every name, so that a difference has a place."""
    return {name: digest(value) for name, value in pairs}


def classes(model: nn.Module, root: Path) -> dict[str, bool]:
    """Return the project's own classes in a model that compute, and whether each is a flow."""
    found: dict[str, bool] = {}
    for module in model.modules():
        cls = type(module)
        home = sys.modules.get(cls.__module__)
        file = getattr(home, "__file__", None)
        if file is None or not Path(file).is_relative_to(root):
            continue
        owner = next(base for base in cls.__mro__ if "forward" in vars(base))
        flow = any(base.__name__ == "FlowModule" for base in cls.__mro__)
        if flow or not owner.__module__.startswith("torch."):
            found[f"{cls.__module__}.{cls.__qualname__}"] = flow
    return found
