"""The record of one epoch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Mapping


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """One epoch that was logged.

    Attributes:
        epoch: its index, from 0.
        duration: how long it took, in seconds.
        metrics: the metrics that were logged with it.
        resources: the use of the machine meanwhile, as the mean of its samples.
        time: when it was logged, in seconds since 1970.
        step: the last step that was recorded before, if any was.
        eta: the seconds that the rest was expected to take, `None` when that was not known.

    Example:
        >>> from flodl import Monitor
        >>> monitor = Monitor(2, quiet=True)
        >>> monitor.log(0, 1.5, {"loss": 0.5})
        >>> monitor.history()[0].metrics
        {'loss': 0.5}
    """

    epoch: int
    duration: float
    metrics: Mapping[str, float]
    resources: Mapping[str, float]
    time: float
    step: float | None = None
    eta: float | None = None


def record_data(record: EpochRecord) -> dict[str, Any]:
    """Return a record as plain values."""
    return asdict(record)


def record_from(data: Mapping[str, Any]) -> EpochRecord:
    """Return the record that `record_data` made plain."""
    return EpochRecord(
        epoch=int(data["epoch"]),
        duration=float(data["duration"]),
        metrics=dict(data["metrics"]),
        resources=dict(data["resources"]),
        time=float(data["time"]),
        step=data.get("step"),
        eta=data.get("eta"),
    )


def without_nan(value: Any) -> Any:
    """Return plain values with `None` for every number that JSON does not know.

    Example:
        >>> from flodl.monitor.store.records import without_nan
        >>> without_nan({"loss": [1.0, float("nan")]})
        {'loss': [1.0, None]}
    """
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: without_nan(each) for key, each in value.items()}
        case list() | tuple():
            return [without_nan(each) for each in value]
        case _:
            return value
