"""The time of a search, and of the part of it that runs now."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import final

from flodl_verify.sandbox.attempt import time_limit


@final
class SearchTime:
    """Shares the time of a search out among its parts."""

    def __init__(self, budget_s: float) -> None:
        self._deadline = time.monotonic() + budget_s
        self._part_deadline = self._deadline

    def left_s(self) -> float:
        """Return the seconds that are left for the whole search."""
        return self._deadline - time.monotonic()

    def part_left_s(self) -> float:
        """Return the seconds that are left for the part that runs now."""
        return min(self._deadline, self._part_deadline) - time.monotonic()

    def is_over(self) -> bool:
        """Return True if the part that runs now is to end."""
        return self.part_left_s() < 0

    @contextlib.contextmanager
    def part(self, share: float, least_s: float) -> Iterator[None]:
        """Give a block its share of the time that is left; the rest is for the others.

        Raises:
            OutOfTimeError: the block took longer.
        """
        seconds = min(max(share * self.left_s(), least_s), self.left_s())
        self._part_deadline = time.monotonic() + seconds
        try:
            with time_limit(seconds):
                yield
        finally:
            self._part_deadline = self._deadline
