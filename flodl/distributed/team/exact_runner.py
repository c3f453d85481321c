"""Exact sums over the units of a window, whichever rank trains a unit and whichever rank dies.

Example: a window of 7 units on three ranks; rank 1 dies while it trains.

    held     rank 0: units 0 to 2, rank 1: 3 and 4, rank 2: 5 and 6
    rows     of ranks 0 and 2; what rank 1 held is lost
    round 1  units 3 and 4 are trained again: unit 3 by rank 0, unit 4 by rank 2
    rows     of both, and no unit is missing: the sums are added up; each unit is in them once

Two ranks may see the end of a collective differently, if a third dies in it. Each row carries the window
and the round of its rank. A rank that is ahead hands over what it knows: the rows of the rounds of this
window, or the sums of the last one. So all ranks commit the same windows with the same sums.

A rank that joins later is one that is far behind: its row has window -1, and it is handed the whole state.
The others let it in (`admit`) between two windows, when all of them hold that state.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, final

import torch
from torch import Tensor

from flodl.distributed.control import ASK, JOIN, ControlRow
from flodl.distributed.el_che import ElChe
from flodl.distributed.team.background import Background
from flodl.distributed.team.failures import PeerLostError
from flodl.distributed.team.open_window import OpenWindow, plain_rows
from flodl.distributed.team.team import Team, require_agreement
from flodl.distributed.unit_ledger import Units, count_units

_NEW: Final = -1  # window of a rank that has no state yet
_TRUST: Final = 0.8  # of the measured time of a rank, for each window without a unit
Holdings = Mapping[int, Sequence[Units]]  # the units of each rank


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExactWork:
    """The work of one window, as plain callables.

    Attributes:
        train: trains one unit of the window, given by its number from 0; returns the seconds of its
            computation, without waiting for data.
        tensors: returns what this rank adds to the sums, given the units of each rank. It is asked again
            after a death. All ranks return the same shapes.
        note: returns a text for all other ranks, empty for none.
        fingerprint: returns a checksum below 2**53 of what all ranks share.

    Example:
        >>> import torch
        >>> own = torch.zeros(1)
        >>> work = ExactWork(
        ...     train=lambda unit: own.add_(unit).item(), tensors=lambda held: [own], note=lambda: "",
        ... )
        >>> work.train(3), work.tensors({0: [(0, 1)]})
        (3.0, [tensor([3.])])
    """

    train: Callable[[int], float]
    tensors: Callable[[Holdings], Sequence[Tensor]]
    note: Callable[[], str]
    fingerprint: Callable[[], int] = int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The outcome of a window, the same on all ranks.

    Attributes:
        tensors: the sums over all units.
        notes: the texts of the ranks that hold units of the window, by rank; only those that are not empty.
        held: the units of each rank.
        busy: seconds of computation of each rank.

    Example:
        >>> Sums(tensors=(), notes={}, held={0: ((0, 4),), 1: ((4, 6),)}, busy={0: 0.1, 1: 0.1}).counts
        {0: 4, 1: 2}
    """

    tensors: Sequence[Tensor]
    notes: Mapping[int, str]
    held: Holdings
    busy: Mapping[int, float]

    @property
    def counts(self) -> dict[int, int]:
        """Number of units of each rank."""
        return {rank: count_units(units) for rank, units in self.held.items()}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AveragingWork:
    """The part of one rank in the sums of a window that it trained for itself, as plain callables.

    Attributes:
        note: returns a text for all other ranks, given the rows; `None` where the rows say that no rank has
            one.
        tensors: returns what this rank adds to the sums, given the rows and the texts. It is asked again
            after a death. All ranks return the same shapes.

    Example:
        >>> import torch
        >>> work = AveragingWork(
        ...     note=lambda rows: None,
        ...     tensors=lambda rows, notes: [torch.ones(1) * sum(row.done for row in rows)],
        ... )
        >>> work.tensors([ControlRow(rank=0, window=0, done=2, busy=0.1)], {})
        [tensor([2.])]
    """

    note: Callable[[Sequence[ControlRow]], str | None]
    tensors: Callable[[Sequence[ControlRow], Mapping[int, str]], Sequence[Tensor]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """The outcome of a window of averaging, the same on all ranks.

    Attributes:
        rows: the reports of the ranks that are alive.
        tensors: the sums over these ranks.
        notes: their texts, by rank.

    Example:
        >>> Averaged(rows=[ControlRow(rank=1, window=4, done=2, busy=0.1)], tensors=[], notes={}).rows[0].done
        2
    """

    rows: Sequence[ControlRow]
    tensors: Sequence[Tensor]
    notes: Mapping[int, str]


class UnitSummer(Protocol):
    """Ranks that add up units; one process alone is one too.

    Attributes:
        rank: id of this rank.
        members: ids of the ranks of the next window.
        world_size: ranks that started.
        on_cpu: whether all ranks compute on the CPU, where equal updates give equal bits.
        joins: whether ranks ask to join, as the rows of the last window say.
        asks: whether there are requests to all ranks that were not taken, as the rows of the last window say.
        is_newcomer: whether this rank has yet to `enter` a training that began without it.
    """

    rank: int
    members: tuple[int, ...]
    world_size: int
    on_cpu: bool
    joins: bool

    @property
    def asks(self) -> bool:
        """Whether all ranks know of requests that were not taken."""
        ...

    @property
    def is_newcomer(self) -> bool:
        """Whether this rank has yet to `enter` a training that began without it."""
        ...

    def admit(self, pack: Callable[[], Tensor], /) -> None:
        """Let the ranks that ask join, and give them the state that all ranks hold now."""
        ...

    def enter(self) -> Tensor:
        """Join the others, and return the state that they hold."""
        ...

    def take_requests(self) -> tuple[str, ...]:
        """Return the requests that were not taken; all ranks call it after the same window."""
        ...

    def add_up(self, count: int, work: ExactWork, /) -> Sums:
        """Train the units of a window, each on one rank, and return the sums over all of them."""
        ...


@final
class ExactRunner:
    """Windows of exactly so many units over all ranks of a team.

    Args:
        team: the members.
        el_che: the speeds of the ranks, learned on the way; a fresh one if left out.

    Attributes:
        listen: returns what this process was asked for since the last call, for all ranks to do.

    Example:
        One rank adds up the numbers of four units.

        >>> import torch
        >>> from torch.distributed import TCPStore
        >>> store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        >>> team = Team(("127.0.0.1", store.port), 0, ["cpu"])
        >>> own = torch.zeros(1)
        >>> work = ExactWork(
        ...     train=lambda unit: own.add_(unit).item(), tensors=lambda held: [own], note=lambda: "",
        ... )
        >>> ExactRunner(team).add_up(4, work).tensors
        [tensor([6.])]
        >>> team.close()
    """

    def __init__(self, team: Team, el_che: ElChe | None = None) -> None:
        self.rank = team.rank
        self.members = team.members
        self.world_size = len(team.members) or len(team.devices)
        self.on_cpu = all(name == "cpu" for name in team.devices)
        self.joins = False
        self.el_che = el_che or ElChe()
        self._team = team
        self._window = 0
        self._idle: dict[int, int] = {}  # windows since a rank trained a unit
        self._last: _Committed | None = None
        self._sync: float | None = None  # seconds of the last sum of an averaging
        self._under_way: Background[_Committed] | None = None
        self._pack: Callable[[], Tensor] | None = None  # during an admission
        self._asked = self._taken = 0  # requests that all ranks know of, and that they took
        self.listen: Callable[[], Iterable[str]] = tuple

    @property
    def is_newcomer(self) -> bool:
        """Whether this rank has yet to `enter` a team that started without it."""
        return self._team.is_newcomer

    @property
    def asks(self) -> bool:
        """Whether all ranks know of requests that were not taken."""
        return self._asked > self._taken

    def take_requests(self) -> tuple[str, ...]:
        """Return the requests that were not taken; all ranks call it after the same window."""
        found = self._team.requests_up_to(self._asked)[self._taken :]
        self._taken = self._asked
        return found

    def admit(self, pack: Callable[[], Tensor]) -> None:
        """Let the ranks that ask join, and give them the state that all ranks hold now.

        All ranks call it between the same two windows, in which no rank holds what the others lack.

        Args:
            pack: returns the state as one tensor; called on one rank, again if that dies.

        Raises:
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left.
        """
        self._pack = pack
        self._team.admit(self._window)
        try:
            self.part()
        finally:
            self._pack = None
            self._team.close_admission()
        self.on_cpu = all(self._team.device_of(rank) == "cpu" for rank in self.members)

    def enter(self) -> Tensor:
        """Join the others, and return the state that they hold.

        Raises:
            TooLateError: they ended before.
            TeamError: too few ranks are left, or one of them failed with an error.
        """
        self._team.enter()
        own = ControlRow(rank=self.rank, window=_NEW, done=0, busy=0.0)
        while True:
            rows = self._team.gather(own)
            newest = max(rows, key=lambda each: (each.window, each.round))
            try:
                told = json.loads(self._team.share_text("", newest.rank))
                state = self._share_state(told["state"], newest.rank)
            except PeerLostError:
                continue
            self._window = newest.window
            self._idle, self._taken = dict(told["idle"]), told["taken"]
            self.el_che.load_state_dict(told["el_che"])
            self.part()
            return state

    def add_up(self, count: int, work: ExactWork) -> Sums:
        """Train the units of a window, each on one rank, and return the sums over all of them.

        All ranks call it with the same count. A window without units is a meeting: it collects notes.

        Raises:
            DesyncError: the ranks do not share one state any more.
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left.
        """
        window = OpenWindow(count, self.members, self._paces())
        self._train(window, work)
        while True:
            row = window.row(self.rank, self._window, work.fingerprint())
            rows = self._team.gather(self._wishing(row))
            newest = max(rows, key=lambda each: (each.window, each.round))
            try:
                if any(
                    (each.window, each.round) != (newest.window, newest.round) for each in rows
                ):
                    ended = self._hand_over(window, rows, newest)
                    if ended is None:
                        self._train(window, work)
                        continue
                    return self._commit(ended)
                require_agreement(rows)
                window.close_round(rows)
                if window.assigned is not None:
                    self._train(window, work)
                    continue
                sums = self._sum(window, work)
            except PeerLostError:
                continue
            return self._commit(_Committed(history=window.history, sums=sums))

    def average(self, row: ControlRow, work: AveragingWork) -> Averaged:
        """Report a window that this rank trained for itself; return the sums of what the ranks add.

        A rank that dies adds nothing, and its units of this window are lost. All ranks call it.

        Args:
            row: the report; rank and window are filled in, and the seconds of the last sum are added to
                those of the row.
            work: what this rank adds.

        Raises:
            DesyncError: the ranks do not share one state any more.
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left.
        """
        return self._averaged(self._exchange(self._stamped(row), work))

    def start(self, row: ControlRow, work: AveragingWork) -> None:
        """Begin what `average` does, in the background; until `finish`, the ranks may do nothing else here.

        Gathering, regrouping after a death, and handing over are those of `average`, so both may meet: a
        rank that repeats a sum in `finish`, and one that has just begun it.

        Args:
            row: as for `average`.
            work: as for `average`; its callables are called in a thread.
        """
        stamped = self._stamped(row)
        self._under_way = Background(lambda: self._exchange(stamped, work))

    def finish(self) -> Averaged:
        """Wait for what `start` began, and return the sums.

        Raises:
            DesyncError: the ranks do not share one state any more.
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left.
        """
        assert self._under_way is not None
        under_way, self._under_way = self._under_way, None
        return self._averaged(under_way.take())

    def _stamped(self, row: ControlRow) -> ControlRow:
        sync = None if self._sync is None else self._sync + (row.sync or 0.0)
        return self._wishing(replace(row, rank=self.rank, window=self._window, sync=sync))

    def _wishing(self, row: ControlRow) -> ControlRow:
        """Return a row with what other processes wish from all ranks."""
        for text in self.listen():
            self._team.request(text)
        # A request stays a wish until it is taken, also if the rank that knew of it first has died.
        asked = max(len(self._team.requests()), self._asked)
        wish = (JOIN if self._team.newcomers() else 0) | (ASK if asked > self._taken else 0)
        return replace(row, wish=row.wish | wish, asked=asked)

    def _exchange(self, row: ControlRow, work: AveragingWork) -> _Committed:
        """Gather the rows of a window and add up, until it succeeds; nothing is committed yet."""
        window = OpenWindow(0, self.members, {})
        while True:
            rows = self._team.gather(row)
            newest = max(rows, key=lambda each: each.window)
            try:
                if any(each.window != newest.window for each in rows):
                    ended = self._hand_over(window, rows, newest)
                    if ended is None:
                        continue
                    return ended
                require_agreement(rows)
                return _Committed(history=[rows], sums=self._averages(rows, work))
            except PeerLostError:
                continue

    def _averaged(self, ended: _Committed) -> Averaged:
        sums = self._commit(ended)
        return Averaged(rows=ended.history[-1], tensors=sums.tensors, notes=sums.notes)

    def _averages(self, rows: Sequence[ControlRow], work: AveragingWork) -> Sums:
        note = work.note(rows)
        notes = {}
        if note is not None:
            notes = dict(zip(self._team.members, self._team.gather_texts(note), strict=True))
        began = time.perf_counter()
        tensors = self._team.sum_up(work.tensors(rows, notes))
        self._sync = time.perf_counter() - began
        return Sums(
            tensors=tensors, notes=notes, held={}, busy={row.rank: row.busy for row in rows}
        )

    def part(self) -> None:
        """Meet once more, so that a rank that missed the end of the last window learns it."""
        self.add_up(0, ExactWork(train=float, tensors=lambda _held: [], note=str))

    def _paces(self) -> dict[int, float]:
        """Return the time of a unit on each rank, in any scale.

        A rank without units is not measured: its time is trusted less in each window, until it gets one.
        """
        weights = self.el_che.weights(self.members)
        return {
            rank: weight * _TRUST ** self._idle.get(rank, 0)
            for rank, weight in zip(self.members, weights, strict=True)
        }

    def _train(self, window: OpenWindow, work: ExactWork) -> None:
        """Do the units that the open round assigns to this rank, unless they are done."""
        if window.assigned is None or window.is_trained:
            return
        for start, stop in window.assigned.get(self.rank, ()):
            for unit in range(start, stop):
                window.busy += work.train(unit)
                window.done += 1
        window.is_trained = True

    def _sum(self, window: OpenWindow, work: ExactWork) -> Sums:
        note = work.note()
        own = [*work.tensors(window.held), torch.tensor([float(bool(note))])]
        began = time.perf_counter()
        *tensors, noted = self._team.sum_up(own)
        window.sync = time.perf_counter() - began
        texts = [""] * len(self._team.members)
        if noted.item():
            texts = self._team.gather_texts(note)
        notes = dict(zip(self._team.members, texts, strict=True))
        return Sums(
            tensors=tensors,
            notes={rank: text for rank, text in notes.items() if text},
            held=dict(window.held),
            busy=window.busy_of(),
        )

    def _commit(self, committed: _Committed) -> Sums:
        """Close the window: what comes next starts from the same members and speeds on every rank."""
        self.members = tuple(row.rank for row in committed.history[-1])
        self.joins = any(row.wish & JOIN for row in committed.history[-1])
        self._asked = max(row.asked for row in committed.history[-1])
        for rows in committed.history:
            if any(row.done for row in rows):
                self.el_che.report(
                    [row.done for row in rows],
                    [row.busy for row in rows],
                    None,
                    members=[row.rank for row in rows],
                )
        if committed.sums.held and any(committed.sums.counts.values()):
            for rank, units in committed.sums.counts.items():
                self._idle[rank] = 0 if units else self._idle.get(rank, 0) + 1
        self._last = committed
        self._window += 1
        return committed.sums

    def _hand_over(
        self, window: OpenWindow, rows: Sequence[ControlRow], newest: ControlRow
    ) -> _Committed | None:
        """Give what this rank knows, or take it; return the window if the others committed it."""
        told: dict[str, Any] = {"history": window.numbers(), "last": None, "state": None}
        if self._last is not None and any(_NEW < each.window < newest.window for each in rows):
            told["last"] = self._last.plain()
        is_newest = self._team.rank == newest.rank
        state = None
        if is_newest and any(each.window == _NEW for each in rows):
            # All members are in the admission, or it would not have let a new rank in.
            assert self._pack is not None
            state = self._pack()
            told |= {"state": len(state), "idle": sorted(self._idle.items())}
            told |= {"el_che": self.el_che.state_dict(), "taken": self._taken}
        text = self._team.share_text(json.dumps(told) if is_newest else "", newest.rank)
        found = json.loads(text)
        if found["state"] is not None:
            self._share_state(found["state"], newest.rank, state)
        tensors: list[Tensor] = []
        if found["last"] is not None:
            tensors = self._share_last(found["last"], newest.rank)
        if newest.window > self._window:
            return _Committed.of(found["last"], tensors)
        for numbers in found["history"][window.round :]:
            window.close_round([ControlRow.from_numbers(each) for each in numbers])
        return None

    def _share_state(self, size: int, source: int, state: Tensor | None = None) -> Tensor:
        own = torch.empty(size, dtype=torch.uint8) if state is None else state
        return self._team.share([own], source)[0]

    def _share_last(self, last: Mapping[str, Any], source: int) -> list[Tensor]:
        own = self._last
        if own is None or self._team.rank != source:
            tensors = [
                torch.empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in last["shapes"]
            ]
        else:
            tensors = list(own.sums.tensors)
        return self._team.share(tensors, source)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Committed:
    """A window that is over: its rows and its sums, for a rank that did not see its end."""

    history: Sequence[Sequence[ControlRow]]
    sums: Sums

    def plain(self) -> dict[str, Any]:
        """Return all but the tensors as values that JSON keeps."""
        sums = self.sums
        return {
            "history": plain_rows(self.history),
            "notes": sorted(sums.notes.items()),
            "held": [[rank, [list(each) for each in units]] for rank, units in sums.held.items()],
            "busy": sorted(sums.busy.items()),
            "shapes": [
                [list(each.shape), str(each.dtype).removeprefix("torch.")] for each in sums.tensors
            ],
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any], tensors: Sequence[Tensor]) -> _Committed:
        """Return what `plain` and the tensors describe."""
        return cls(
            history=[
                [ControlRow.from_numbers(each) for each in numbers] for numbers in plain["history"]
            ],
            sums=Sums(
                tensors=tensors,
                notes={int(rank): text for rank, text in plain["notes"]},
                held={
                    int(rank): [(start, stop) for start, stop in units]
                    for rank, units in plain["held"]
                },
                busy={int(rank): seconds for rank, seconds in plain["busy"]},
            ),
        )
