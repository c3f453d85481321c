"""Arguments of a monitor, in the forms that users pass."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from torch import distributed, nn

from flodl.inspect.observation import latest_metrics
from flodl.monitor.store.storage import METRICS_FOLDER
from flodl.nn.devices import hardware_summary
from flodl.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flodl.monitor.recording import Value

Metrics: TypeAlias = (
    "Mapping[str, Value] | Iterable[tuple[str, Value]] | nn.Module "
    "| tuple[nn.Module, Mapping[str, Value]] | None"
)


def pairs_of(metrics: Metrics) -> list[tuple[str, Value]]:
    """Return the names and values of metrics; those of a graph are its latest, and its children's.

    Args:
        metrics: a table, pairs, a graph, or a graph and a table.
    """
    match metrics:
        case None:
            return []
        case nn.Module():
            return [*latest_metrics(metrics).items()]
        case (nn.Module() as graph, more):
            return [*latest_metrics(graph).items(), *pairs_of(cast("Metrics", more))]
        case Mapping():
            return [*metrics.items()]
        case _:
            return [*metrics]


def folder_of(run: RunDirectory | str | Path | None) -> Path | None:
    """Return where the metrics of a run are kept; only the first of several processes keeps them."""
    if run is None or is_follower():
        return None
    return run.metrics if isinstance(run, RunDirectory) else Path(run) / METRICS_FOLDER


def is_follower() -> bool:
    """Return whether this is one of several processes that train together, and not the first."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank() != 0
    together = os.environ.get("WORLD_SIZE", "1") != "1"
    return together and os.environ.get("RANK", "0") != "0"


def start_data(title: str, total: int, accepts: tuple[str, ...]) -> dict[str, Any]:
    """Return the note for the start of a process that records a run."""
    return {
        "title": title,
        "total": total,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "hardware": hardware_summary(),
        "accepts": list(accepts),
        "time": time.time(),
    }
