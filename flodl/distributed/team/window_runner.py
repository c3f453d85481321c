"""Windows of averaging on a team: train, report, average, commit; a death repeats only the average.

Example: three ranks end window 7; rank 1 dies between its report and the sum.

    all       rows of window 7 gathered: 10, 4 and 8 units
    0 and 2   the sum fails; what they add to it is kept, as the sum works on copies
    0 and 2   regroup, gather again: rows of ranks 0 and 2 only; the sum of both; commit
    planner   rank 1 has no row, so its 4 units are in no sum, and are planned again

Half-commit: rank 0 got the whole sum and trains window 8, while rank 2 saw the sum fail. When they gather
again, the rows show windows 8 and 7; rank 0 hands over the rows and sums of window 7, and rank 2 commits
them as all others did.

Policy Async adds up in the background. One window is under way at most, so what is above holds unchanged:

    all       window 7 is trained: its sum begins, and window 8 is trained meanwhile
    all       window 8 is trained: commit 7, then begin the sum of 8, train 9, and so on
    drained   where parts are cut again, a rank died, stops or saves: window 8 is trained and 7 committed,
              then 8 is added up while nothing else happens; now all ranks are equal

A rank begins the sum of window 8 after it committed window 7, and that sum needs the reports of all. So no
rank is ahead of another by more than one window, and what one has, it can hand over.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor

from flodl.distributed.control import ApplyPolicy, ControlRow, WindowPlan
from flodl.distributed.planner import WindowPlanner
from flodl.distributed.team.exact_runner import Averaged, AveragingWork, ExactRunner
from flodl.distributed.team.failures import TeamError
from flodl.distributed.unit_ledger import take_units


def _same(row: ControlRow) -> ControlRow:
    return row


def _unplanned(plan: WindowPlan) -> None:
    del plan


def _no_note(rows: Sequence[ControlRow]) -> None:
    del rows


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWork:
    """Work of a window, as plain callables.

    Attributes:
        train: trains one unit, given by its number.
        contribution: returns what this rank adds to the sum of the window, given the rows and the texts of
            all ranks. It is asked again after a death. All ranks return the same shapes.
        commit: makes the outcome of a window part of the state that all ranks share.
        begin: is told the plan of the window that this rank trains next.
        is_cut: returns True if this rank ends its window now.
        report: fills in a row: loss, drift, wish, and a checksum of what all ranks share.
        note: returns a text for all ranks, given the rows; `None` where the rows say that no rank has one.
            It is left out where the next window is trained meanwhile.
        may_overlap: returns True if the next window may be trained while the sum of the last one is under
            way; the same on all ranks.
        hand_in: is told that the sum of the reported window begins, and whether the next window is trained
            meanwhile. From then on, `contribution` and `commit` are about that window.

    Example:
        >>> import torch
        >>> total, own = torch.zeros(1), torch.zeros(1)
        >>> work = WindowWork(
        ...     train=lambda unit: own.add_(unit),
        ...     contribution=lambda rows, notes: [own],
        ...     commit=lambda done: (total.add_(done.tensors[0]), own.zero_()),
        ... )
        >>> work.train(3)
        tensor([3.])
    """

    train: Callable[[int], object]
    contribution: Callable[[Sequence[ControlRow], Mapping[int, str]], Sequence[Tensor]]
    commit: Callable[[Averaged], object]
    begin: Callable[[WindowPlan], object] = _unplanned
    is_cut: Callable[[], bool] = bool
    report: Callable[[ControlRow], ControlRow] = _same
    note: Callable[[Sequence[ControlRow]], str | None] = _no_note
    may_overlap: Callable[[], bool] = bool
    hand_in: Callable[[bool], object] = bool


@final
class WindowRunner:
    """The windows of a run on one rank of a team.

    Args:
        runner: the windows of the team, of any kind.
        planner: the decisions, equal on all ranks.
        work: the work of a window.

    Attributes:
        planner: the decisions, with the ledger of the committed units.

    Raises:
        TeamError: the policy is Sync, which has no windows of averaging.

    Example:
        One rank adds up the numbers of six units.

        >>> import torch
        >>> from torch.distributed import TCPStore
        >>> from flodl.distributed.team import Team
        >>> total, own = torch.zeros(1), torch.zeros(1)
        >>> work = WindowWork(
        ...     train=lambda unit: own.add_(unit),
        ...     contribution=lambda rows, notes: [own],
        ...     commit=lambda done: (total.add_(done.tensors[0]), own.zero_()),
        ... )
        >>> store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        >>> team = Team(("127.0.0.1", store.port), 0, ["cpu"])
        >>> WindowRunner(ExactRunner(team), WindowPlanner(6, team.members), work).run()
        >>> total, team.close()
        (tensor([15.]), None)
    """

    def __init__(self, runner: ExactRunner, planner: WindowPlanner, work: WindowWork) -> None:
        if planner.policy is ApplyPolicy.SYNC:
            raise TeamError(
                "WindowRunner averages, and policy sync adds up exactly: make the planner with "
                "policy=ApplyPolicy.CADENCE or ApplyPolicy.ASYNC"
            )
        self.planner = planner
        self._runner = runner
        self._work = work
        self._beside = 0.0  # seconds that the last window took beside training and the sum
        self._trained: ControlRow | None = None  # the report of a window that is not handed in yet
        self._begins: float | None = (
            None  # when the next window begins, where windows follow each other
        )

    def run(self) -> None:
        """Train every unit of the epoch once, and return when all members hold the same state.

        Raises:
            DesyncError: the members do not share one state any more.
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left.
        """
        while self.window() is not None:
            pass
        self._runner.part()

    def window(self) -> Averaged | None:
        """Commit one window; return its outcome, or `None` if the epoch is complete.

        With policy Async, the window after it is trained before, where that is possible.

        Raises:
            DesyncError: the members do not share one state any more.
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left.
        """
        plan = self.planner.plan
        if plan is None:
            return None
        row = self._trained or self._train(plan)
        self._trained = None
        ahead = self.planner.follow() if self._work.may_overlap() else None
        self._work.hand_in(ahead is not None)
        if ahead is None:
            self._begins = None
            work = AveragingWork(note=self._work.note, tensors=self._work.contribution)
            return self._close(plan, self._runner.average(row, work))
        self._runner.start(row, AveragingWork(note=_no_note, tensors=self._work.contribution))
        self._trained = self._train(ahead, row.done)
        waits = time.perf_counter()
        done = self._runner.finish()
        if self._begins is not None:  # the others are late, so this rank is not
            self._begins += time.perf_counter() - waits
        return self._close(plan, done)

    def _close(self, plan: WindowPlan, done: Averaged) -> Averaged:
        """Make the outcome of a window part of the state, and plan the next one."""
        start = time.perf_counter()
        self._work.commit(done)
        # The runner counts windows of other kinds too, such as evaluations.
        self.planner.decide([replace(row, window=plan.window, crc=0) for row in done.rows])
        self._beside += time.perf_counter() - start
        return done

    def _train(self, plan: WindowPlan, skipped: int = 0) -> ControlRow:
        """Train the units of a window, and return the report.

        Args:
            plan: the window.
            skipped: units at the begin of the ranges that belong to the window under way.
        """
        rank = self._runner.rank
        position = plan.members.index(rank)
        self._work.begin(plan)
        crc = zlib.crc32(json.dumps(self.planner.state_dict()).encode())
        start = time.perf_counter()
        begins = self._begin_of(plan, start)
        done = 0
        for unit in _units(plan, position, skipped):
            # A rank that is late trains one unit all the same: it cannot fall behind for ever.
            may_end = done or plan.seconds is None
            elapsed = time.perf_counter() - begins
            if may_end and not plan.has_time(position, done, elapsed):
                break
            if done and self._work.is_cut():
                break
            self._work.train(unit)
            done += 1
        ended = time.perf_counter()
        row = ControlRow(
            rank=rank, window=plan.window, done=done, busy=ended - start, sync=self._beside
        )
        row = self._work.report(row)
        self._beside = time.perf_counter() - ended
        return replace(row, crc=zlib.crc32(row.crc.to_bytes(8, "little"), crc))

    def _begin_of(self, plan: WindowPlan, now: float) -> float:
        """Return when a window begins: at the end of the one before, also if this rank was early or late.

        So a rank that lost time trains less in the next window, and is on time again.
        """
        begins = now
        if plan.seconds is None:
            self._begins = None
        else:
            if self._begins is not None:
                begins = max(self._begins, now - plan.seconds)
            self._begins = begins + plan.seconds
        return begins


def _units(plan: WindowPlan, position: int, skipped: int) -> Iterator[int]:
    for start, stop in take_units(plan.units[position], skipped)[1]:
        yield from range(start, stop)
