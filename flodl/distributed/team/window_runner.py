"""Windows of work on a team: train, report, add up, commit; a death repeats only the sum.

Example: three ranks end window 7; rank 1 dies between its report and the sum.

    all       rows of window 7 gathered: 10, 4 and 8 units
    0 and 2   the sum fails; what they add to it is kept, as the sum works on copies
    0 and 2   regroup, gather again: rows of ranks 0 and 2 only; the sum of both; commit
    planner   rank 1 has no row, so its 4 units are in no sum, and are planned again

Half-commit: rank 0 got the whole sum and trains window 8, while rank 2 saw the sum fail. When they gather
again, the rows show windows 8 and 7; rank 0 hands its committed state over, and rank 2 goes on from it.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor

from flodl.checkpoint.tensors import as_bytes, on_host
from flodl.distributed.control import ApplyPolicy, ControlRow, WindowPlan
from flodl.distributed.planner import WindowPlanner
from flodl.distributed.team.failures import PeerLostError, TeamError
from flodl.distributed.team.team import Team, require_agreement


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWork:
    """What a window does, as plain callables.

    Attributes:
        train: trains one unit, given by its number.
        contribution: returns what this rank adds to the sum of the window; asked again after a death.
        commit: makes the sum part of the committed state, given the sum and the rows behind it.
        state: returns the committed tensors, which all ranks share; not what a window trains on.
        adopt: overwrites the committed state, and forgets what this rank trained since.

    Example:
        >>> import torch
        >>> total, own = torch.zeros(1), torch.zeros(1)
        >>> work = WindowWork(
        ...     train=lambda unit: own.add_(unit),
        ...     contribution=lambda: [own],
        ...     commit=lambda sums, rows: (total.add_(sums[0]), own.zero_()),
        ...     state=lambda: [total],
        ...     adopt=lambda tensors: (total.copy_(tensors[0]), own.zero_()),
        ... )
        >>> work.train(3)
        tensor([3.])
    """

    train: Callable[[int], None]
    contribution: Callable[[], Sequence[Tensor]]
    commit: Callable[[Sequence[Tensor], Sequence[ControlRow]], None]
    state: Callable[[], Sequence[Tensor]]
    adopt: Callable[[Sequence[Tensor]], None]


@final
class WindowRunner:
    """The windows of a run on one rank of a team.

    Args:
        team: the members.
        planner: the decisions, equal on all ranks.
        work: what a window does.

    Attributes:
        planner: the decisions, with the ledger of the committed units.
        window: number of the window that is open.

    Raises:
        TeamError: the policy is not Cadence, the only one that is built.

    Example:
        One rank adds up the numbers of six units.

        >>> import torch
        >>> from torch.distributed import TCPStore
        >>> total, own = torch.zeros(1), torch.zeros(1)
        >>> work = WindowWork(
        ...     train=lambda unit: own.add_(unit),
        ...     contribution=lambda: [own],
        ...     commit=lambda sums, rows: (total.add_(sums[0]), own.zero_()),
        ...     state=lambda: [total],
        ...     adopt=lambda tensors: (total.copy_(tensors[0]), own.zero_()),
        ... )
        >>> store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        >>> team = Team(("127.0.0.1", store.port), 0, ["cpu"])
        >>> WindowRunner(team, WindowPlanner(6, team.members), work).run()
        >>> total, team.close()
        (tensor([15.]), None)
    """

    def __init__(self, team: Team, planner: WindowPlanner, work: WindowWork) -> None:
        if planner.policy is not ApplyPolicy.CADENCE:
            raise TeamError(
                f"WindowRunner runs policy cadence; {planner.policy} is not built yet: make the planner "
                "with policy=ApplyPolicy.CADENCE"
            )
        self.planner = planner
        self.window = 0
        self._team = team
        self._work = work
        self._sync: float | None = None

    def run(self) -> None:
        """Train every unit of the epoch once, and return when all members hold the same state.

        Raises:
            DesyncError: the members do not share one state any more.
            LeftOutError: the others went on without this rank.
        """
        while (plan := self.planner.plan) is not None:
            if self._settle(self._train(plan)):
                return
        # A rank may still be in the last window, because its sum failed: it needs the state of this one.
        self._settle(self._idle_row(self.window))

    def _train(self, plan: WindowPlan) -> ControlRow:
        position = plan.members.index(self._team.rank)
        start = time.perf_counter()
        done = 0
        for unit in _units(plan, position):
            if not plan.has_time(position, done, time.perf_counter() - start):
                break
            self._work.train(unit)
            done += 1
        busy = time.perf_counter() - start
        return replace(self._idle_row(plan.window), done=done, busy=busy)

    def _settle(self, row: ControlRow) -> bool:
        """Commit the window of a row, or adopt the state of a rank that committed it already.

        Returns:
            True if all members are at the end of the epoch.
        """
        while True:
            rows = self._team.gather(row)
            newest = max(rows, key=lambda each: each.window)
            try:
                if any(each.window < newest.window for each in rows):
                    self._hand_over(row.window < newest.window, newest)
                    if row.window < newest.window:
                        row = self._idle_row(newest.window)
                    continue
                require_agreement(rows)
                if self.planner.plan is None:
                    return True
                start = time.perf_counter()
                sums = self._team.sum_up(self._work.contribution())
                self._sync = time.perf_counter() - start
            except PeerLostError:
                continue
            self._work.commit(sums, rows)
            self.planner.decide(rows)
            self.window = row.window + 1
            return False

    def _hand_over(self, is_behind: bool, newest: ControlRow) -> None:
        """Send the state of a rank that is ahead to all; those that are behind go on from it."""
        text = self._team.share_text(json.dumps(self.planner.state_dict()), newest.rank)
        tensors = self._team.share(self._work.state(), newest.rank)
        if is_behind:
            self.planner.adopt(json.loads(text))
            self._work.adopt(tensors)
            self.window = newest.window

    def _idle_row(self, window: int) -> ControlRow:
        """Return the row of a rank that trained nothing in a window."""
        crc = zlib.crc32(json.dumps(self.planner.state_dict()).encode())
        for tensor in self._work.state():
            host = on_host(tensor)
            crc = zlib.crc32(as_bytes(host), crc)
        return ControlRow(
            rank=self._team.rank, window=window, done=0, busy=0.0, sync=self._sync, crc=crc
        )


def _units(plan: WindowPlan, position: int) -> Iterator[int]:
    for start, stop in plan.units[position]:
        yield from range(start, stop)
