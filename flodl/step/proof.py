"""Proof that a compiled step equals the eager one: both run on copies, on real batches."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flodl.step.accumulation import Accumulation
from flodl.step.batch_key import read
from flodl.step.binding import Binding, twin
from flodl.step.compiled import SplitStep, WholeStep
from flodl.step.eager import EagerStep
from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.step.compiled import AbstractCompiledStep, Made

LOSS_TOLERANCE = 1e-4
"""Largest relative difference of a loss in full precision."""
STATE_TOLERANCE = 1e-2
"""Largest relative difference, in norm, of what the steps changed in full precision."""
_HALF_PRECISION = 20.0  # bfloat16 keeps 8 bits; fusing rounds less often than eager does
_AGREED = 1e-3
_GATHERED = 2  # batches of an accumulation: a third one adds in the same way as the second
_SCALE = 256.0  # of losses: small enough that updates are made, and can be compared


def bound(
    made: Made, binding: Binding, eager: EagerStep, gathered: Accumulation | None
) -> AbstractCompiledStep:
    """Return the step that the compiled parts make on the tensors of a binding."""
    if gathered is None:
        return WholeStep(made, binding)
    return SplitStep(made, binding, eager, gathered)


def prove(
    live: EagerStep,
    layout: tuple[tuple[int, int], ...],
    made: Made,
    batches: Sequence[Any],
) -> str:
    """Run both ways on copies and return how far they differ, in words.

    Raises:
        RefusedStepError: they differ by more than rounding explains.
    """
    recipe = live.recipe
    device = recipe.device()
    devices = [device.index or 0] if device.type == "cuda" else []
    if recipe.accumulate > 1:
        batches = list(itertools.islice(itertools.cycle(batches), 2 * _GATHERED))
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = _copy(live), _copy(live)
        copied = Binding(one.recipe, layout)
        start = [each.clone() for each in copied.aliases]
        held = Accumulation(copied.trained) if recipe.in_parts else None
        compiled = bound(made, copied, one, held)
        state = torch.get_rng_state()
        try:
            losses = [compiled(read(batch)[0]) for batch in batches]
        except RuntimeError as error:
            raise RefusedStepError(f"it fails: {str(error).splitlines()[0]}") from error
        torch.set_rng_state(state)
        expected = [other(batch) for batch in batches]
    slack = _HALF_PRECISION if recipe.precision else 1.0
    worst = max(_relative(a, b) for a, b in zip(losses, expected, strict=True))
    if not worst <= LOSS_TOLERANCE * slack:
        raise RefusedStepError(f"its losses differ from eager ones by {worst:.1e}")
    moved = _difference(Binding(other.recipe, layout), copied, start)
    if not moved <= STATE_TOLERANCE * slack:
        raise RefusedStepError(f"its updates differ from eager ones by {moved:.1e}")
    return f"losses within {worst:.0e} and updates within {moved:.0e} of eager in {len(batches)} steps"


def _copy(live: EagerStep) -> EagerStep:
    """Return a step on copies that updates soon and often, so that updates can be compared."""
    recipe = live.recipe
    device = recipe.device()
    scaler = torch.amp.GradScaler(device.type) if recipe.scaled else None
    often = min(recipe.accumulate, _GATHERED)
    step = EagerStep(replace(twin(recipe), accumulate=often, scaler=scaler))
    if live.scaler is not None and scaler is not None:
        known = live.scaler.state_dict()
        scaler.load_state_dict({**known, "scale": min(known["scale"], _SCALE)})
        scaler.scale(torch.ones((), device=device))  # makes its tensors
    return step


def _relative(found: Tensor | None, expected: Tensor) -> float:
    if found is None:
        raise RefusedStepError("its update changed while it was being proved")
    one, other = float(found), float(expected)
    if one == other or (one != one and other != other):  # noqa: PLR0124  # both are not numbers
        return 0.0
    return abs(one - other) / max(abs(other), 1e-12)


def _difference(eager: Binding, compiled: Binding, start: list[Tensor]) -> float:
    """Return the largest relative difference of the changes, kind of tensor by kind."""
    masks = _comparable(eager, compiled)
    kinds: dict[str, tuple[float, float]] = {}
    pairs = zip(_kinds(eager), eager.aliases, compiled.aliases, start, strict=True)
    for (kind, owner), expected, found, before in pairs:
        if not expected.is_floating_point():
            if not torch.equal(expected, found):
                raise RefusedStepError(f"a {kind} differs from that of eager")
            continue
        error, size = kinds.get(kind, (0.0, 0.0))
        apart = found.double() - expected.double()
        moved = expected.double() - before.double()
        mask = masks[owner] if kind == "parameter" and owner is not None else None
        if mask is not None:
            apart, moved = apart[mask], moved[mask]
        kinds[kind] = (error + float(apart.square().sum()), size + float(moved.square().sum()))
    # Averages of parameters cannot be told apart from rounding as parameters can.
    kinds.pop("average", None)
    return max((_ratio(error, size) for error, size in kinds.values()), default=0.0)


def _ratio(error: float, size: float) -> float:
    if error != error:  # noqa: PLR0124  # not a number on one side only is caught by the losses
        return 0.0
    return (error / size) ** 0.5 if size > 0 else float(error > 0) * float("inf")


def _kinds(binding: Binding) -> list[tuple[str, int | None]]:
    """Return for each flat tensor what it is, and for parameters which one."""
    found: list[tuple[str, int | None]] = [("parameter", i) for i in range(len(binding.trained))]
    found += [("buffer", None)] * len(binding.others)
    for index, state in enumerate(binding.states):
        found += [(name, index) for name in state]
    rest = len(binding.flat) - len(found)
    return [*found, *[("average", None)] * rest]


def _comparable(eager: Binding, compiled: Binding) -> list[Tensor | None]:
    """Return a mask per trained parameter: True where both steps agree about the gradient.

    Adam and its like divide gradients by their own size.  Where a gradient should be zero, but is a
    rounding error (biases before a BatchNorm, the keys of an attention), the update is one too.

    Raises:
        RefusedStepError: they agree about less than half of the elements.
    """
    masks: list[Tensor | None] = []
    agreed = total = 0
    for one, other in zip(eager.states, compiled.states, strict=True):
        masks.append(None)
        for name, each in one.items():
            apart = (each - other[name]).abs()
            mask = apart <= _AGREED * each.abs()
            masks[-1] = mask
            agreed, total = agreed + int(mask.sum()), total + mask.numel()
            break
    if agreed < total / 2:
        raise RefusedStepError("its gradients are not those of eager")
    return masks
