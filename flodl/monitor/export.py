"""A run as files: epochs as CSV, as a log for people, and as a page that needs no server."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from flodl.monitor.page import page_html
from flodl.monitor.wording import epoch_line, eta_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flodl.monitor.store.records import EpochRecord
    from flodl.monitor.store.rundata import RunData
    from flodl.monitor.store.series import Buckets

ARCHIVE_POINTS: Final = 3000


def csv_of_epochs(epochs: Sequence[EpochRecord]) -> str:
    """Return a row per epoch; a metric has its column from the first row on, blank where it is missing.

    Args:
        epochs: the epochs.
    """
    metrics = dict.fromkeys(name for each in epochs for name in each.metrics)
    resources = dict.fromkeys(name for each in epochs for name in each.resources)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["epoch", "duration_s", *metrics, *resources])
    for each in epochs:
        values = [each.metrics.get(name) for name in metrics]
        values += [each.resources.get(name) for name in resources]
        numbers = ["" if value is None else repr(value) for value in values]
        table.writerow([each.epoch + 1, f"{each.duration:.6f}", *numbers])
    return text.getvalue()


def log_of_epochs(epochs: Sequence[EpochRecord], total: int, title: str = "") -> str:
    """Return a line per epoch, as the terminal showed it, and one about all.

    Args:
        epochs: the epochs.
        total: the planned number of epochs.
        title: the model.
    """
    lines = [f"# {title or 'training'}: {len(epochs)} of {total or len(epochs)} epochs"]
    lines += [epoch_line(each, total) for each in epochs]
    lines.append(f"# total: {eta_text(sum(each.duration for each in epochs))}")
    return "\n".join(lines) + "\n"


def series_data(buckets: Buckets) -> dict[str, Any]:
    """Return the points of a chart as plain values; the band only where it says more than the mean."""
    data: dict[str, Any] = {
        "per": buckets.per,
        "steps": buckets.steps,
        "times": [round(each, 3) for each in buckets.times],
        "mean": [_short(each) for each in buckets.mean],
    }
    if buckets.per > 1:
        data["low"] = [_short(each) for each in buckets.low]
        data["high"] = [_short(each) for each in buckets.high]
    return data


def archive_of(runs: Mapping[str, RunData]) -> str:
    """Return a page with everything in it, which needs nothing but a browser.

    Args:
        runs: the runs, by name.
    """
    data = {
        "runs": {name: {**run.snapshot(), "accepts": []} for name, run in runs.items()},
        "series": {
            name: {
                group: {
                    each: {
                        **series_data(series.window(points=ARCHIVE_POINTS)),
                        "count": series.count,
                        "last": series.last_step,
                    }
                    for each, series in members.items()
                }
                for group, members in run.series.items()
            }
            for name, run in runs.items()
        },
        "pictures": {name: run.picture for name, run in runs.items() if run.picture},
    }
    return page_html(archive=data)


def plain_record(record: EpochRecord) -> dict[str, Any]:
    """Return an epoch as other tools want it: a flat table of numbers."""
    data = asdict(record)
    return {**data["metrics"], **{f"resources/{k}": v for k, v in data["resources"].items()}}


def _short(value: float) -> float | None:
    # Seven digits are what single precision has.
    return float(f"{value:.7g}") if math.isfinite(value) else None
