"""The history of metrics as CSV, as a log for people, and as a page with a chart."""

from __future__ import annotations

import json
import math
import os
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from flodl.observe.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flodl.observe.metrics import MetricLog


def number_text(value: float) -> str:
    """Return a number as logs show it.

    Example:
        >>> from flodl.observe.export import number_text
        >>> number_text(0.0), number_text(0.00042), number_text(0.5), number_text(1234.5)
        ('0', '4.20e-04', '0.5000', '1234.50')
    """
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.2f}"


def csv_text(columns: Mapping[str, Sequence[float]]) -> str:
    """Return series as CSV: the epoch from 1, then one column each, blank where a series is shorter.

    Args:
        columns: values by name.
    """
    rows = [",".join(["epoch", *(_csv_field(name) for name in columns)])]
    for epoch in range(max(map(len, columns.values()), default=0)):
        values = (
            f"{series[epoch]:.8f}" if epoch < len(series) else "" for series in columns.values()
        )
        rows.append(",".join([str(epoch + 1), *values]))
    return "\n".join(rows) + "\n"


def log_text(log: MetricLog, total_epochs: int = 0, names: Iterable[str] = ()) -> str:
    """Return one line per epoch: metrics, duration, and how long the rest will take.

    Args:
        log: the metrics.
        total_epochs: the planned number of epochs; without it no remaining time is stated.
        names: metrics or groups; none for all.

    Raises:
        UnknownNameError: a name is neither a metric nor a group.
    """
    chosen = {name: log.history(name) for name in log.expand(names)}
    times = log.flush_times
    lines = []
    for epoch in range(max(map(len, chosen.values()), default=0)):
        head = f"epoch {epoch + 1}" + (f"/{total_epochs}" if total_epochs else "")
        parts = [
            f"{name}={number_text(values[epoch])}"
            for name, values in chosen.items()
            if epoch < len(values)
        ]
        if epoch < len(times):
            took = times[epoch] - (times[epoch - 1] if epoch else 0.0)
            parts.append(f"[{format_duration(took)}")
            if total_epochs:
                rest = times[epoch] / (epoch + 1) * max(total_epochs - epoch - 1, 0)
                parts[-1] += f", ETA {format_duration(rest)}"
            parts[-1] += "]"
        lines.append("  ".join([head, *parts]))
    return "\n".join(lines) + "\n"


def plot_text(columns: Mapping[str, Sequence[float]], title: str) -> str:
    """Return a page with a chart of series, which needs nothing but a browser.

    Args:
        columns: values by name.
        title: the heading.

    Raises:
        ValueError: there is no value to draw.
    """
    if not any(columns.values()):
        message = "there is nothing to plot yet: record values and flush() at the end of an epoch"
        raise ValueError(message)
    # A JSON parser knows no NaN and no infinity.
    series = [
        {"name": name, "values": [each if math.isfinite(each) else None for each in values]}
        for name, values in columns.items()
    ]
    data = json.dumps(series, separators=(",", ":")).replace("<", "\\u003c")
    heading = escape(title)
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{heading}</title><style>{_asset('plot.css')}</style></head><body>",
            f'<h1>{heading}</h1><div id="legend"></div>',
            '<label><input type="checkbox" id="log"> logarithmic</label>',
            f'<canvas id="chart" role="img" aria-label="{heading}"></canvas><p id="point"></p>',
            f'<script type="application/json" id="data">{data}</script>',
            f"<script>{_asset('plot.js')}</script></body></html>",
            "",
        )
    )


def write_text(path: str | Path, text: str) -> Path:
    """Write a file so that a reader sees the old text or the whole new one.

    Args:
        path: the file.
        text: its new content.

    Returns:
        The path.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _csv_field(text: str) -> str:
    if any(char in text for char in ',"\n\r'):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text
