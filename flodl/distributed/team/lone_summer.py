"""One process that adds up units by the rules of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from torch import Tensor

from flodl.distributed.team.exact_runner import ExactWork, Sums
from flodl.distributed.team.failures import TooLateError
from flodl.distributed.unit_ledger import Units


class ClosedMixin:
    """Ranks that no other can join while they train, and that no other process asks for anything."""

    joins = False
    asks = False
    is_newcomer = False

    def admit(self, pack: Callable[[], Tensor]) -> None:
        """No rank asks to join."""

    def enter(self) -> Tensor:
        """These ranks began together.

        Raises:
            TooLateError: always.
        """
        raise TooLateError("no rank can join this training, all begin together")

    def take_requests(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()


@final
class LoneSummer(ClosedMixin):
    """One process that does all units itself, by the rules of many.

    Example:
        >>> import torch
        >>> own = torch.zeros(1)
        >>> work = ExactWork(
        ...     train=lambda unit: own.add_(unit).item(), tensors=lambda held: [own], note=lambda: "",
        ... )
        >>> LoneSummer().add_up(4, work).tensors
        [tensor([6.])]
    """

    rank = 0
    members: tuple[int, ...] = (0,)
    world_size = 1
    on_cpu = True

    def add_up(self, count: int, work: ExactWork) -> Sums:
        """Do all units and return their sums."""
        busy = sum([work.train(unit) for unit in range(count)])
        held: dict[int, tuple[Units, ...]] = {0: ((0, count),) if count else ()}
        note = work.note()
        return Sums(
            tensors=list(work.tensors(held)),
            notes={0: note} if note else {},
            held=held,
            busy={0: busy},
        )
