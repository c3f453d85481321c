"""Failures of a team of processes, each with the rank and what to type."""

from __future__ import annotations

from pathlib import Path
from typing import final

from flodl.errors import FlodlError


@final
class TeamError(FlodlError):
    """A team cannot start or go on: bad settings, a job that cannot travel, too few ranks.

    Example:
        >>> from flodl.distributed.team import launch
        >>> try:
        ...     launch(print, devices=2, run_dir="runs/a", min_ranks=3)
        ... except TeamError as problem:
        ...     print(problem)
        min_ranks is 3 with 2 devices; give a number from 1 to 2
    """


@final
class WorkerError(FlodlError):
    """A rank raised an error, or every rank died.

    Attributes:
        rank: the rank that failed first.
        log: the file with everything that the rank printed.

    Example:
        >>> problem = WorkerError("rank 1 failed", rank=1, log=Path("runs/a/rank-1.log"))
        >>> problem.rank, problem.log.name
        (1, 'rank-1.log')
    """

    def __init__(self, message: str, *, rank: int, log: Path) -> None:
        self.rank = rank
        self.log = log
        super().__init__(message)


@final
class DesyncError(FlodlError):
    """Ranks that must share one state do not.

    Attributes:
        ranks: the ranks whose state differs from that of the majority.

    Example:
        >>> DesyncError("rank 1 differs", ranks=(1,)).ranks
        (1,)
    """

    def __init__(self, message: str, *, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        super().__init__(message)


@final
class LeftOutError(FlodlError):
    """The others went on without this rank, because it was silent for longer than the patience.

    Example:
        >>> issubclass(LeftOutError, FlodlError)
        True
    """


@final
class TooLateError(FlodlError):
    """The team ended before a rank that asked to join was let in.

    Example:
        >>> issubclass(TooLateError, FlodlError)
        True
    """


@final
class PeerLostError(FlodlError):
    """A collective cannot complete, because a member is dead or silent; the team regroups.

    Example:
        >>> issubclass(PeerLostError, FlodlError)
        True
    """
