"""Estimate of the remaining time: recent epochs count more than the first ones."""

from __future__ import annotations

import math
from typing import Final, final

# The last five epochs or so decide; the first one, with its warm-up, is soon forgotten.
_WEIGHT: Final = 0.3


@final
class Eta:
    """Learns from the epochs that were logged, so it is right after a resume, and follows changes.

    Example:
        >>> from flodl.monitor.eta import Eta
        >>> eta = Eta()
        >>> eta.add(2.0)
        >>> eta.remaining(5)
        10.0
    """

    def __init__(self) -> None:
        self._mean = 0.0
        self._spread = 0.0
        self._total_weight = 0.0

    def add(self, seconds: float) -> None:
        """Take in the time from one logged epoch to the next."""
        if not math.isfinite(seconds) or seconds < 0:
            return
        # Weights that add up to one from the start: one epoch is enough for an estimate.
        self._total_weight = self._total_weight * (1 - _WEIGHT) + _WEIGHT
        share = _WEIGHT / self._total_weight
        step = seconds - self._mean
        self._mean += share * step
        self._spread = (1 - share) * (self._spread + share * step * step)

    def remaining(self, epochs: int) -> float | None:
        """Return the expected seconds of so many epochs, `None` before the first was logged."""
        if not self._total_weight:
            return None
        return max(epochs, 0) * self._mean

    def spread(self, epochs: int) -> float:
        """Return the standard deviation of that."""
        return math.sqrt(self._spread * max(epochs, 0))
