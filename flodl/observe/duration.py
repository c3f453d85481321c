"""Durations as people read them."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """Return a duration as text.

    Example:
        >>> from flodl.observe.duration import format_duration
        >>> format_duration(0.042), format_duration(1.24), format_duration(125.2)
        ('42ms', '1.2s', '2m05s')
    """
    if round(seconds * 1000) < 1000:
        return f"{round(seconds * 1000)}ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s"


def short_time(seconds: float) -> str:
    """Return the time of one step: `%dus` below a millisecond, then `%.2fms`.

    Example:
        >>> from flodl.observe.duration import short_time
        >>> short_time(0.00042), short_time(0.0123)
        ('420us', '12.30ms')
    """
    micros = seconds * 1e6
    return f"{micros:.0f}us" if micros < 999.5 else f"{seconds * 1e3:.2f}ms"
