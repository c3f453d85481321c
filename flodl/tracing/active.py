"""The tracer that listens in this thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from flodl.tracing.tracer import Tracer


@final
class _Active(threading.local):
    """The innermost trace of this thread.

    Attributes:
        tracer: its tracer, None outside of any trace.
    """

    tracer: Tracer | None = None


ACTIVE: Final = _Active()


def current_tracer() -> Tracer | None:
    """Return the tracer that listens in this thread, None if there is none."""
    tracer = ACTIVE.tracer
    if tracer is None or not tracer.listening or tracer.cached.running() is not None:
        return None
    return tracer
