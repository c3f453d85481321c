"""Requests from the page of a monitor: save now, stop, pause."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flodl.train.protocols import Asking, MonitorLike

if TYPE_CHECKING:
    from flodl.train.progress import Notices
    from flodl.train.signals import Signals
    from flodl.train.training import Training

_PAUSE = 0.1


def obey(
    monitor: MonitorLike | None, training: Training, notices: Notices, signals: Signals
) -> bool:
    """Pause or stop as requested; return whether to save now."""
    asked: object = monitor
    if not isinstance(asked, Asking):
        return False
    wishes = set(asked.requests())
    if "pause" in wishes and "stop" not in wishes:
        notices.add("pause", f"paused at step {training.step}; pause again to go on")
        wishes |= _paused(asked, signals)
        notices.add("pause", "going on")
    if "stop" in wishes:
        training.stop("a request on the page of the monitor")
    return "save" in wishes


def _paused(monitor: Asking, signals: Signals) -> set[str]:
    """Wait for a request or a signal."""
    while not signals.received:
        wishes = set(monitor.requests())
        if wishes:
            return wishes
        time.sleep(_PAUSE)
    return set()
