"""A window as one rank trained it, kept until it is added up.

Example: rank 0 made 3 updates of 2 batches each, and trains on while they are added up.

    deltas    how far the weights moved in the window, in total
    buffers   the buffers before and after, as copies
    units     3: the deltas count three times
    batches   6
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from flodl.distributed.control import ControlRow
from flodl.train.cadence.rank_buffers import BufferMoves
from flodl.train.state import RankShare, WindowReport


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RankWindow:
    """The work of a rank in one window, as far as it counts.

    Attributes:
        deltas: how far each weight moved; empty if nothing counts.
        buffers: what happened to the buffers; `None` before the first window.
        units: updates.
        batches: batches of these updates.
    """

    deltas: Sequence[Tensor] = ()
    buffers: BufferMoves | None = None
    units: int = 0
    batches: int = 0


def report_of_window(
    rows: Sequence[ControlRow],
    batches: Mapping[int, int],
    *,
    step: int,
    seconds: float,
    anchor: int,
) -> WindowReport:
    """Return what the ranks did in a window.

    Args:
        rows: their rows.
        batches: the batches of each rank.
        step: batches of the training after the window.
        seconds: time since the window before.
        anchor: units of the slowest rank that the next window is made for.
    """
    total = sum(batches.values())
    loss = sum(batches[row.rank] * row.loss for row in rows if row.loss is not None)
    return WindowReport(
        step=step,
        seconds=seconds,
        loss=loss / total if total else math.nan,
        per_rank=tuple(
            RankShare(rank=row.rank, batches=batches[row.rank], busy=row.busy) for row in rows
        ),
        sync=min([row.sync for row in rows if row.sync is not None], default=0.0),
        drift=max(row.drift for row in rows),
        anchor=anchor,
    )
