"""Buffers of a model over a window in which each rank trained for itself, as if one device had trained all.

Example: batch normalization with momentum 0.1. A rank that trains c batches moves its buffer from b to
`0.9^c b + B`. One device that trains the batches of rank 0 (3 of them), then those of rank 1 (2) ends at

    0.9^2 (0.9^3 b + B0) + B1 = 0.9^5 b + 0.9^2 B0 + B1

so each rank adds its B, faded by the batches of the ranks after it, and one sum is the exact result. Without
momentum (a cumulative mean) the terms are weighed by numbers of batches instead. Counters add up; other
floating point buffers move by the mean of their changes, weighed by batches.

`B` does not depend on b. So with policy Async, a rank that already trained two more batches in the meantime
continues at `0.9^2 c + B'`, where c is the committed buffer and `B'` is of these two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from flodl.errors import TrainingError

_TRACKED = ("running_mean", "running_var")
_COUNTER = "num_batches_tracked"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BufferMoves:
    """The buffers of one rank at the begin and at the end of a window, by name."""

    before: Mapping[str, Tensor]
    now: Mapping[str, Tensor]


@final
class RankBuffers:
    """The buffers that all ranks share, beside those on which this rank trains.

    Args:
        model: the model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._norms = {name: each for name, each in model.named_modules() if _is_norm(each)}
        self._committed: dict[str, Tensor] = {}
        self._start: dict[str, Tensor] = {}
        self.begin()

    def begin(self) -> None:
        """Let the present buffers be the committed ones."""
        self._committed = self._start = self._copies()

    def _copies(self) -> dict[str, Tensor]:
        return {name: each.detach().clone() for name, each in self._model.named_buffers()}

    def moves(self, *, copied: bool = False) -> BufferMoves:
        """Return what this rank did to the buffers in this window.

        Args:
            copied: keep the present values, though the rank trains on.
        """
        now = self._copies() if copied else dict(self._model.named_buffers())
        return BufferMoves(before=self._start, now=now)

    @torch.no_grad()
    def contributions(
        self, batches: Mapping[int, int], rank: int, moves: BufferMoves | None = None
    ) -> list[Tensor]:
        """Return what this rank adds to the sum for each buffer, in their order.

        Args:
            batches: batches of each rank in the window.
            rank: this rank.
            moves: what this rank did; the moves up to now if left out.

        Raises:
            TrainingError: a buffer is new, has another shape, or changed and cannot be added up.
        """
        moves = moves or self.moves()
        own = batches.get(rank, 0)
        after = sum(count for other, count in batches.items() if other > rank)
        total = sum(batches.values())
        if moves.now.keys() != self._committed.keys():
            changed = min(moves.now.keys() ^ self._committed.keys())
            raise TrainingError(f"the buffer `{changed}` came or went in a step; {_FIXED}")
        if not own:  # batches that do not count moved nothing
            moves = BufferMoves(before=moves.before, now=moves.before)
        return [self._contribution(name, moves, own, after, total) for name in moves.now]

    @torch.no_grad()
    def undo(self) -> None:
        """Return to the buffers at the begin of the window."""
        for name, each in self._model.named_buffers():
            before = self._start.get(name)
            if before is not None and before.shape == each.shape:
                each.copy_(before)

    def train_on(self, moves: BufferMoves, batches: int) -> None:
        """Begin a window from the committed buffers and from moves that are not committed yet.

        Args:
            moves: what this rank did in the window before.
            batches: its batches there.
        """
        self._write(self.contributions({0: batches}, 0, moves))
        self._start = self._copies()

    def _contribution(
        self, name: str, moves: BufferMoves, own: int, after: int, total: int
    ) -> Tensor:
        before, now = moves.before[name], moves.now[name]
        if now.shape != before.shape:
            raise TrainingError(f"the buffer `{name}` has another shape after a step; {_FIXED}")
        if now.dtype == torch.bool or now.is_complex():
            if not torch.equal(now, before):
                raise TrainingError(
                    f"a step changes the buffer `{name}` of type {now.dtype}, whose changes cannot be "
                    "added up over devices; train on one device"
                )
            return torch.zeros(0, device=now.device)
        if not now.is_floating_point():
            # Counters of batches are small: with the others they are one sum.
            small = name.endswith(_COUNTER)
            return (now - before).to(torch.float32 if small else torch.int64)
        wide = torch.promote_types(now.dtype, torch.float32)
        now, before = now.to(wide), before.to(wide)
        norm = self._norm_of(name)
        if norm is None:
            return (now - before) * (own / total if total else 0.0)
        counter = _counter_of(name)
        seen, earlier = int(moves.now[counter]), int(moves.before[counter])
        each = (seen - earlier) / own if own else 0.0  # a norm may be called twice for a batch
        if norm.momentum is None:
            return now * seen - before * earlier
        keep = 1.0 - float(norm.momentum)
        kept, faded = math.pow(keep, each * own), math.pow(keep, each * after)
        return (now - before * kept) * faded

    def commit(self, sums: Sequence[Tensor]) -> None:
        """Write what all batches of the window gave."""
        self._write(sums)
        self.begin()

    @torch.no_grad()
    def _write(self, sums: Sequence[Tensor]) -> None:
        """Write the committed buffers and the sums of what was done since."""
        added = dict(zip(self._committed, sums, strict=True))
        for name, each in self._model.named_buffers():
            before, total = self._committed[name], added[name]
            if not total.numel() and each.numel():
                continue
            norm = self._norm_of(name)
            if norm is None:
                each.copy_(before + total.to(before.dtype))
                continue
            earlier = int(self._committed[_counter_of(name)])
            count = int(added[_counter_of(name)])
            wide = before.to(total.dtype)
            if norm.momentum is not None:
                each.copy_(wide * (1.0 - float(norm.momentum)) ** count + total)
            elif earlier + count:
                each.copy_((wide * earlier + total) / (earlier + count))

    def _norm_of(self, name: str) -> Any:
        """Return the batch normalization to whose statistics a buffer belongs."""
        owner, _, leaf = name.rpartition(".")
        return self._norms.get(owner) if leaf in _TRACKED else None


_FIXED = "with several devices the buffers of a model must keep their names and shapes"


def _is_norm(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.modules.batchnorm._NormBase)
        and module.running_mean is not None
        and module.num_batches_tracked is not None
    )


def _counter_of(name: str) -> str:
    owner = name.rpartition(".")[0]
    return f"{owner}.{_COUNTER}" if owner else _COUNTER
