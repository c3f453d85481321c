"""Guard against windows in which the ranks drift too far apart.

The *drift* of a window is the largest distance of a rank's weights from their mean, relative to the mean:
`max ||w_r - m|| / ||m||`. Example with the default threshold of 5 %:

    drift  .02 .03 .04 .06              three rises, the last above 5 %: HOLD, the anchor may not grow
    drift  .11 .12 .11                  three windows above 10 %: HALVE, then HOLD for ten windows
    loss   1.0 .99 1.01 ... 1.3 1.3 1.3   three windows above mean + 3 standard deviations: HALVE

Longer windows let ranks drift apart, so a shorter window is the remedy. Drift that is high but stable is
normal early in a training; therefore a rise alone only holds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, final

_RISES: Final = 3
_SUSPECT: Final = 3
_HELD: Final = 10
_REMEMBERED: Final = 20
_FEWEST: Final = 5  # losses without which no deviation is estimated
_DEVIATIONS: Final = 3.0
# Losses that are equal to so many digits have no deviation to measure against.
_LEAST_DEVIATION: Final = 1e-3


@final
class Verdict(enum.Enum):
    """What a guard says about a window.

    Example:
        >>> from flodl.distributed import ConvergenceGuard, Verdict
        >>> ConvergenceGuard().observe(0.01) is Verdict.STABLE
        True
    """

    STABLE = "stable"
    HOLD = "hold"
    HALVE = "halve"


@final
class ConvergenceGuard:
    """Verdicts on windows, from the drift of the ranks and the loss.

    Args:
        threshold: drift above which rises count, such as 0.05; twice as much is too much.

    Attributes:
        threshold: drift above which rises count.

    Raises:
        ValueError: the threshold is not positive and finite.

    Example:
        >>> from flodl.distributed import ConvergenceGuard
        >>> guard = ConvergenceGuard()
        >>> [guard.observe(drift).name for drift in (0.02, 0.03, 0.04, 0.06)]
        ['STABLE', 'STABLE', 'STABLE', 'HOLD']
    """

    __slots__ = ("_drifts", "_held", "_losses", "_suspect", "threshold")

    def __init__(self, threshold: float = 0.05) -> None:
        if not 0.0 < threshold < math.inf:
            raise ValueError(f"the threshold is {threshold}; it must be positive and finite")
        self.threshold = threshold
        self._drifts: list[float] = []
        self._losses: list[float] = []
        self._suspect = 0
        self._held = 0

    def observe(self, drift: float, loss: float | None = None) -> Verdict:
        """Return the verdict on a window, and remember the window.

        Args:
            drift: largest relative distance of a rank from the mean, at least 0.
            loss: mean loss of the window; `None` if it is unknown.
        """
        self._drifts = [*self._drifts[-_RISES:], drift]
        is_suspect = not drift <= 2.0 * self.threshold  # true for nan as well
        if loss is not None:
            is_suspect |= self._is_high(loss)
        self._suspect = self._suspect + 1 if is_suspect else 0
        if self._suspect == _SUSPECT:
            self._suspect = 0
            self._losses = []  # a new level of the loss is measured from here on
            self._held = _HELD
            return Verdict.HALVE
        if self._held:
            self._held -= 1
            return Verdict.HOLD
        return Verdict.HOLD if self._is_rising() else Verdict.STABLE

    def state_dict(self) -> dict[str, Any]:
        """Return what was observed, as plain numbers and lists that JSON keeps."""
        return {
            "drifts": list(self._drifts),
            "losses": list(self._losses),
            "suspect": self._suspect,
            "held": self._held,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned.

        Raises:
            ValueError: the state lacks a key.
        """
        missing = sorted(self.state_dict().keys() - state.keys())
        if missing:
            raise ValueError(f"the state of the convergence guard lacks {', '.join(missing)}")
        self._drifts = [float(drift) for drift in state["drifts"]]
        self._losses = [float(loss) for loss in state["losses"]]
        self._suspect = int(state["suspect"])
        self._held = int(state["held"])

    def _is_rising(self) -> bool:
        drifts = self._drifts
        rises = sum(later > earlier for earlier, later in pairwise(drifts))
        return rises == _RISES and drifts[-1] > self.threshold

    def _is_high(self, loss: float) -> bool:
        """Return True if a loss is far above the earlier ones; remember it otherwise."""
        losses = self._losses
        if not math.isfinite(loss):
            return True
        if len(losses) >= _FEWEST:
            # The functions of `statistics` compute with fractions, and take longer than the decision.
            mean = math.fsum(losses) / len(losses)
            variance = math.fsum([(each - mean) ** 2 for each in losses]) / len(losses)
            deviation = max(math.sqrt(variance), _LEAST_DEVIATION * abs(mean))
            if loss > mean + _DEVIATIONS * deviation:
                return True
        self._losses = [*losses[1 - _REMEMBERED :], loss]
        return False
