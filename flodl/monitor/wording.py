"""Numbers, times and lines as a terminal shows them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from flodl.observe.export import number_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.monitor.store.records import EpochRecord

_UNITS: Final = (("GB", 1 << 30, 1), ("MB", 1 << 20, 0), ("KB", 1 << 10, 0))


def eta_text(seconds: float | None) -> str:
    """Return a duration as people say it.

    Example:
        >>> from flodl.monitor.wording import eta_text
        >>> [eta_text(each) for each in (0.042, 1.0, 59.99, 90, 3661)]
        ['42ms', '1s', '59.9s', '1m 30s', '1h 01m']
    """
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "—"
    if seconds < 1:
        return f"{int(seconds * 1000)}ms"
    if seconds < 60:
        tenths = int(seconds * 10)
        return f"{tenths // 10}s" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m {int(seconds) % 60:02d}s"
    return f"{int(seconds) // 3600}h {int(seconds) % 3600 // 60:02d}m"


def bytes_text(count: float) -> str:
    """Return a number of bytes as people say it.

    Example:
        >>> from flodl.monitor.wording import bytes_text
        >>> bytes_text(2_254_857_830), bytes_text(512)
        ('2.1 GB', '512 B')
    """
    for unit, size, digits in _UNITS:
        if count >= size:
            return f"{count / size:.{digits}f} {unit}"
    return f"{count:.0f} B"


def epoch_line(record: EpochRecord, total: int) -> str:
    """Return the line of an epoch.

    Args:
        record: the epoch.
        total: the planned number of epochs, 0 when there is no plan.
    """
    width = len(str(total)) if total else 1
    parts = [f"epoch {record.epoch + 1:>{width}}" + (f"/{total}" if total else "")]
    parts += [f"{name}={_value_text(value)}" for name, value in record.metrics.items()]
    rest = record.eta is not None and record.epoch + 1 < total
    eta = f"  ETA {eta_text(record.eta)}" if rest else ""
    parts.append(f"[{eta_text(record.duration)}{eta}]")
    if vram := vram_text(record.resources):
        parts.append(vram)
    return "  " + "  ".join(parts)


def finish_line(seconds: float, last: EpochRecord | None) -> str:
    """Return the line of the end.

    Args:
        seconds: how long the training took.
        last: the last epoch.
    """
    metrics = last.metrics if last is not None else {}
    parts = [f"{name}: {_value_text(value)}" for name, value in metrics.items()]
    return "  | ".join([f"  training complete in {eta_text(seconds)}", *parts])


def vram_text(resources: Mapping[str, float]) -> str:
    """Return how full the GPUs are, nothing without one."""
    used, total = resources.get("vram_used"), resources.get("vram_total")
    if used is None or not total:
        return ""
    busy = resources.get("gpu")
    share = f" ({busy:.0f}%)" if busy is not None else ""
    return f"VRAM: {used / (1 << 30):.1f}/{bytes_text(total)}{share}"


def _value_text(value: float) -> str:
    return number_text(value) if math.isfinite(value) else str(value)
