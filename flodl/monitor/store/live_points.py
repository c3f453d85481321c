"""Points as they are sent while a run continues: few per message, and no extreme is lost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.monitor.store.frames import Rows

MOST_BUCKETS: Final = 6


def points_payload(rows: Rows, before: Sequence[int]) -> dict[str, Any]:
    """Return the message about new points.

    Args:
        rows: the points.
        before: how many points each series had, from which a page sees whether it missed some.
    """
    count = len(rows.steps)
    per = max(1, math.ceil((count - 1) / (MOST_BUCKETS - 1)))
    # The newest point stands for itself: it is what people read off.
    starts = [*range(0, count - 1, per), count - 1] if count > 1 else [0]
    ends = [*starts[1:], count]
    payload: dict[str, Any] = {
        "group": rows.group,
        "names": list(rows.names),
        "before": list(before),
        "count": count,
        "steps": [rows.steps[at] for at in starts],
        "times": [round(rows.times[at], 3) for at in starts],
    }
    if per == 1:
        payload["mean"] = [[_plain(value) for value in column] for column in rows.columns]
        return payload
    parts = [*zip(starts, ends, strict=True)]
    summed = [[_summed(column[at:end]) for at, end in parts] for column in rows.columns]
    for index, name in enumerate(("mean", "low", "high")):
        payload[name] = [[bucket[index] for bucket in column] for column in summed]
    return payload


def _summed(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None, None, None
    return sum(finite) / len(finite), min(finite), max(finite)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
