"""Requests to a running training: save now, evaluate now, pause, stop.

Example: the page of a monitor asks for a pause, and later for a checkpoint.

    read()    {"pause"}    the training rests
    read()    {}           it rests on
    read()    {"save"}     any request ends the pause: the loop saves, and trains

One process reads the requests of its monitor. Of several ranks, all read the same ones after the same
window, and while they rest, they meet, so that a signal to one of them ends the pause of all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from flodl.train.protocols import Asking, MonitorLike, SharedWindows

if TYPE_CHECKING:
    from flodl.train.progress import Notices
    from flodl.train.training import Training

_PAUSE: Final = 0.1


def requests_of(monitor: MonitorLike | None, shared: SharedWindows | None) -> tuple[str, ...]:
    """Return the requests since the last call."""
    asked: object = monitor
    own = asked.requests() if isinstance(asked, Asking) else ()
    return own if shared is None else (*own, *shared.take_requests())


def rest(
    read: Callable[[], Iterable[str]],
    may_rest: Callable[[], bool],
    training: Training,
    notices: Notices,
) -> set[str]:
    """Pause; return the requests that ended it, `pause` itself left out.

    Args:
        read: returns the requests since the last call.
        may_rest: returns True if a pause may last longer.
        training: the position.
        notices: are told of the pause.
    """
    notices.add("pause", f"paused at step {training.step}; pause again to go on")
    wishes: set[str] = set()
    while not wishes and may_rest():
        wishes = set(read())
        if not wishes:
            time.sleep(_PAUSE)
    notices.add("pause", "going on")
    return wishes - {"pause"}
