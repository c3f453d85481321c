"""A window as one rank trained it, kept until it is added up.

Example: rank 0 made 3 updates of 2 batches each, and trains on while they are added up.

    deltas    how far the weights moved in the window, in total
    buffers   the buffers before and after, as copies
    units     3: the deltas count three times
    batches   6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from flodl.train.cadence.rank_buffers import BufferMoves


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
