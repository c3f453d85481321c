"""The judge's part in the measurement of a step: it compares the weights that the variants came to.

Example: after 10 steps, the weights of a layer differ by 2e-8 between the own step and the fused one, and
by 3e-8 between the own step and the one whose weights were rounded once more at every step. The fused step
is within rounding. With a difference of 4e-4 it would be another computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch

from flodl_verify.compare.remote import Channel, Clock, FailedError, RemoteSide, line_of, words
from flodl_verify.protocol import Equality, Request
from flodl_verify.sides.step_variants import VARIANTS
from flodl_verify.sides.wire import DTYPES, Fields, MalformedMessageError, Pipe, Stored, checked
from flodl_verify.values.comparison import same_bits

# A kernel may differ by as much as so many times the rounding that was added for comparison.
ROUNDINGS: Final = 8.0
# For what is not the script: its import has limits inside.
_SLACK_S = 5.0


def measure_steps(request: Request, channel: Channel, pipe: Pipe) -> None:
    """Let a worker measure the steps of a script, and send what they took and whether weights are equal.

    Raises:
        SideGoneError: the process of the script ended.
    """
    side = RemoteSide("original", channel, Clock())
    pipe.send({"event": "running", "name": "", "side": "original"})
    limit = request.left_s()
    try:
        told, stored = side.ask("fast", limit_s=limit + _SLACK_S, seconds=limit)
    except FailedError:
        return
    with side.believing():
        pipe.send({"event": "speed", "speed": _speed(told, stored)})


def _speed(told: Fields, stored: Stored) -> Fields:
    seconds = checked(told["seconds"], dict)
    places = checked(told["places"], dict)
    equality, difference, rounding = None, 0.0, 0.0
    if places:
        own, fused, shaken = (_tensors(places[name], stored) for name in VARIANTS)
        equality, difference, rounding = compared(own, fused, shaken)
    return {
        "own": _seconds(seconds.get("own", [])),
        "fused": _seconds(seconds.get("fused", [])),
        "equality": equality,
        "difference": difference,
        "rounding": rounding,
        "steps": checked(told["steps"], int),
        "kernels": [words(item) for item in checked(told["kernels"], list)],
        "threads": checked(told["threads"], int),
        "stubs": words(told["stubs"]),
        "trouble": words(told["trouble"]),
        "line": line_of(told["line"]),
    }


def _seconds(value: object) -> list[float]:
    found = [checked(item, float) for item in checked(value, list)]
    if not all(math.isfinite(item) and item >= 0 for item in found):
        raise MalformedMessageError("a time that is none")
    return found


def _tensors(rows: object, stored: Stored) -> list[torch.Tensor]:
    found = []
    for row in checked(rows, list):
        dtype, shape, place = checked(row, list)
        sizes = tuple(checked(item, int) for item in checked(shape, list))
        found.append(stored.tensor(place, DTYPES[checked(dtype, str)], sizes))
    return found


def compared(
    own: Sequence[torch.Tensor], fused: Sequence[torch.Tensor], shaken: Sequence[torch.Tensor]
) -> tuple[Equality, float, float]:
    """Return whether weights are equal, within rounding or different, and how far they are apart.

    A distance is the root of the sum of squares. Within rounding means for each tensor: its distance from
    `own` is at most `ROUNDINGS` times that of `shaken` and of the spacing of its numbers. The two numbers
    are the distances of `fused` and of `shaken` in relation to the size of `own`: over all tensors, or those
    of the tensor that is too far away.
    """
    if (
        not [_form(each) for each in own]
        == [_form(e) for e in fused]
        == [_form(e) for e in shaken]
    ):
        return "different", math.inf, math.inf
    if all(map(same_bits, own, fused)):
        return "equal", 0.0, 0.0
    found = [
        _Apart.of(*each)
        for each in zip(own, fused, shaken, strict=True)
        if not same_bits(each[0], each[1])
    ]
    worst = max(found, key=lambda each: each.excess)
    if worst.excess > 1:
        return "different", *worst.relative()
    whole = _Apart.sum(_Apart.of(*each) for each in zip(own, fused, shaken, strict=True))
    return "rounding", *whole.relative()


def _form(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size]:
    return tensor.dtype, tensor.shape


@final
@dataclass(frozen=True, slots=True)
class _Apart:
    """Sums of squares of a tensor: its size, the distances of both variants, and its spacing."""

    size: float
    fused: float
    shaken: float
    spacing: float

    @classmethod
    def of(cls, own: torch.Tensor, fused: torch.Tensor, shaken: torch.Tensor) -> _Apart:
        """Measure one tensor."""
        base = own.double()
        size = float(base.square().sum())
        exact = not own.is_floating_point()
        return cls(
            size,
            float((fused.double() - base).square().sum()),
            float((shaken.double() - base).square().sum()),
            0.0 if exact else torch.finfo(own.dtype).eps ** 2 * size,
        )

    @classmethod
    def sum(cls, each: Iterable[_Apart]) -> _Apart:
        """Return the sums over several tensors."""
        rows = [(item.size, item.fused, item.shaken, item.spacing) for item in each]
        size, fused, shaken, spacing = (math.fsum(column) for column in zip(*rows, strict=True))
        return cls(size, fused, shaken, spacing)

    @property
    def excess(self) -> float:
        """The distance in relation to what rounding explains; above 1 it does not."""
        limit = ROUNDINGS * (math.sqrt(self.shaken) + math.sqrt(self.spacing))
        if not math.isfinite(self.fused + limit):
            return math.inf
        return math.sqrt(self.fused) / limit if limit > 0 else math.inf

    def relative(self) -> tuple[float, float]:
        """Return both distances in relation to the size."""
        if not self.size > 0:
            return math.inf, math.inf
        first, second = (math.sqrt(each / self.size) for each in (self.fused, self.shaken))
        return first, second
