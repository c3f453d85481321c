"""Input sizes that cost too much, such as attention over the pixels of large images."""

from __future__ import annotations

from typing import final

from flodl_verify.inputs.progress import CallProgress
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.values.recipes import Arguments
from flodl_verify.values.snapshot import tensors_in

TOO_HEAVY = CallProgress(
    places=0, steps=0, failure=Failure(text="its inputs cost too much", line=None)
)

_SLOW_S = 1.0
# Convolutions take as long for an element of a large image as of a small one, attention over its
# elements takes longer for each: only that is a reason to leave out what is larger still.
_GROWTH = 2.0
_NO_MEMORY = "can't allocate memory"


@final
class Weights:
    """The cost of calls of one model, by the number of elements in their inputs."""

    def __init__(self) -> None:
        self._furthest: tuple[int, int] | None = None
        self._seconds_for_one = 0.0
        self._limit: int | None = None

    def is_too_heavy(self, arguments: Arguments) -> bool:
        """Return True if smaller inputs were already slow and reached no further."""
        return self._limit is not None and _elements(arguments) >= self._limit

    def note(self, arguments: Arguments, seconds: float, reach: CallProgress) -> None:
        """Remember what a call cost that came so far."""
        elements = max(1, _elements(arguments))
        each = seconds / elements
        if reach.failure is not None and _NO_MEMORY in reach.failure.text:
            self._leave_out(elements)
        elif self._furthest is None or reach.progress > self._furthest:
            self._furthest, self._seconds_for_one = reach.progress, each
        elif seconds > _SLOW_S and each > _GROWTH * self._seconds_for_one:
            self._leave_out(elements)

    def _leave_out(self, elements: int) -> None:
        self._limit = elements if self._limit is None else min(elements, self._limit)


def _elements(arguments: Arguments) -> int:
    return sum(item.numel() for _, item in tensors_in(arguments))
