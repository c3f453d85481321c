"""The decision at the end of a window: from the gathered rows to the plan of the next window.

Example: an epoch of 1,000 units, two ranks, policy Cadence.

    plan 0    counts 1, 1     no time is known yet, so the window ends by count
    rows      1 unit in 10 ms, 1 unit in 25 ms, an averaging takes 2 ms
    decide    ledger   units 0 and 500 are committed
              El Che   anchor 4, counts 10, 4
    plan 1    100 ms; rank 0 trains from its stretch of the epoch (713 units), rank 1 from its own (285)

Each rank reads one *stretch* of consecutive units, so that it can load data ahead. Stretches are cut from
all that remains: when members change, when half of it is trained, and when one runs out. Policy Sync has
no stretches: its window is the next `accumulate` units, in total over all ranks.

Policy Async trains window w+1 before window w is committed. Stretches make that possible: a rank reads on in
its own one, and needs to know nothing of the others. `follow` plans such a window, or says that the parts
have to be cut again first.

The planner holds the whole state of the decision. It reads no clock, sends nothing, and draws no random
number, so ranks that decide from the same rows stay equal without a coordinator.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

from flodl.distributed.control import ApplyPolicy, ControlRow, WindowPlan
from flodl.distributed.divergence import ConvergenceGuard, Verdict
from flodl.distributed.el_che import ElChe
from flodl.distributed.partition import divide
from flodl.distributed.unit_ledger import (
    UnitLedger,
    Units,
    count_units,
    cut_units,
    merge_units,
    missing_units,
    take_units,
)

_VERSION: Final = 1
# A rank that completed at most this part of its count was cut off: its speed changed. So did that of a
# rank whose only unit ended long after the window.
_CUT_OFF: Final = 0.75
# Between two windows, the state of one is a state of the other.
_AVERAGING: Final = (ApplyPolicy.CADENCE, ApplyPolicy.ASYNC)


@final
class WindowPlanner:
    """The plans of all windows of a run, decided from the rows that the ranks gather.

    Args:
        total: units of the first epoch.
        members: ids of the ranks that train.
        policy: how the work of the ranks becomes one model.
        accumulate: units of one update over all ranks; used by policy Sync alone.
        el_che: the choice of the cadence; a default one if left out.
        guard: the convergence guard; `None` switches it off. Policy Sync has no drift and ignores it.

    Attributes:
        policy: how the work of the ranks becomes one model.
        accumulate: units of one update over all ranks.
        el_che: the choice of the cadence.
        guard: the convergence guard.
        ledger: the committed units of the epoch.
        plan: the window that the ranks train now; `None` when the epoch is complete.

    Raises:
        ValueError: there is no rank, one occurs twice, or `accumulate` is below 1.

    Example:
        >>> from flodl.distributed import ControlRow, WindowPlanner
        >>> planner = WindowPlanner(1000, range(2))
        >>> plan = planner.decide([
        ...     ControlRow(rank=0, window=0, done=1, busy=0.010, sync=0.002),
        ...     ControlRow(rank=1, window=0, done=1, busy=0.025, sync=0.003),
        ... ])
        >>> plan.window, plan.counts, plan.seconds
        (1, (10, 4), 0.1)
        >>> planner.ledger.ranges
        ((0, 1), (500, 501))
    """

    __slots__ = (
        "_ahead", "_held", "_members", "_open", "_recut_at", "_stretches", "_waiting", "_window",
        "accumulate", "el_che", "guard", "ledger", "plan", "policy",
    )  # fmt: skip

    def __init__(
        self,
        total: int,
        members: Iterable[int],
        *,
        policy: ApplyPolicy = ApplyPolicy.CADENCE,
        accumulate: int = 1,
        el_che: ElChe | None = None,
        guard: ConvergenceGuard | None = None,
    ) -> None:
        if accumulate < 1:
            raise ValueError(f"accumulate is {accumulate}; an update needs at least 1 unit")
        self.policy = policy
        self.accumulate = accumulate
        self.el_che = el_che or ElChe()
        self.guard = guard
        self._members = tuple(sorted(members))
        self._waiting: tuple[int, ...] = ()
        self._window = 0
        self.ledger = UnitLedger(total)
        self._stretches: dict[int, list[Units]] = {}
        self._recut_at = 0
        self._open: Units = (0, 0)
        self._held: dict[int, list[Units]] = {}
        self._ahead: WindowPlan | None = None
        self.plan = self._next_plan()

    def start_epoch(self, total: int) -> WindowPlan | None:
        """Begin an epoch of other units, and return its first plan.

        Raises:
            ValueError: the present epoch is not complete.
        """
        if not self.ledger.is_complete:
            raise ValueError(
                f"{self.ledger.left} units of the epoch are not committed; train them first"
            )
        self.ledger = UnitLedger(total)
        self._stretches = {}
        self.plan = self._next_plan()
        return self.plan

    def decide(self, rows: Sequence[ControlRow], joined: Iterable[int] = ()) -> WindowPlan | None:
        """Commit a window, and return the plan of the next one.

        Members without a row are dead: their units of this window were never averaged, so they remain
        to be trained. In policy Sync, the same window follows with the missing units, until an update
        is complete; only then it is committed.

        Args:
            rows: one row of each member that is alive, in any order.
            joined: ids of ranks that begin with the next committed window.

        Returns:
            The plan of the next window or round; `None` when the epoch is complete.

        Raises:
            ValueError: the rows do not belong to the plan, or the ranks do not agree any more.
        """
        plan = self.plan
        if plan is None:
            raise ValueError("the epoch is complete; call `start_epoch` before the next window")
        rows = sorted(rows, key=operator.attrgetter("rank"))
        _check_rows(plan, rows)
        self._members = tuple(row.rank for row in rows)
        self._waiting = tuple(sorted({*self._waiting, *joined}))
        self._learn(plan, rows)
        if self.policy is ApplyPolicy.SYNC:
            missing = self._collect(plan, rows)
            if missing:
                self.plan = self._make_up(plan, missing)
                return self.plan
        else:
            self._commit(plan, rows)
        self._window += 1
        self._members = tuple(sorted({*self._members, *self._waiting}))
        self._waiting = ()
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            self.plan = self._next_plan()
        else:  # it is trained already, from what the stretches have left now
            rest = tuple(tuple(self._stretches[rank]) for rank in ahead.members)
            self.plan = replace(ahead, units=rest)
        return self.plan

    def follow(self) -> WindowPlan | None:
        """Return the plan of the window after the open one, before that one is committed (policy Async).

        Only a rank itself knows how many units of the open window it trained: it leaves so many out at the
        begin of its ranges. `decide` then commits the open window, and `plan` is the one returned here.

        Returns:
            `None` where the open window has to be committed first: the parts of the epoch have to be cut
            again, as too little is left, half is trained, a rank died, or no time is known yet.

        Example:
            >>> from flodl.distributed import ApplyPolicy, ControlRow, WindowPlanner
            >>> planner = WindowPlanner(1000, range(2), policy=ApplyPolicy.ASYNC)
            >>> planner.follow() is None  # nothing is measured
            True
            >>> rows = [(0, 0.010), (1, 0.025)]
            >>> plan = planner.decide([
            ...     ControlRow(rank=rank, window=0, done=1, busy=busy, sync=0.002) for rank, busy in rows
            ... ])
            >>> plan.window, plan.counts, planner.follow().window
            (1, (10, 4), 2)
        """
        plan, stretches = self.plan, self._stretches
        if self.policy is not ApplyPolicy.ASYNC or plan is None or not stretches:
            return None
        if plan.members != self._members or not self.el_che.window:
            return None
        counts = self.el_che.plan(self._members)
        needed = map(operator.add, plan.counts, counts)
        if self.ledger.left <= self._recut_at or not all(
            _holds(stretches[rank], count)
            for rank, count in zip(self._members, needed, strict=True)
        ):
            return None
        parts = [stretches[rank] for rank in self._members]
        seconds = None if self.el_che.is_by_count else self.el_che.window
        ahead = self._plan_of(counts, parts, seconds)
        self._ahead = replace(ahead, window=plan.window + 1)
        return self._ahead

    def stretch(self, rank: int) -> list[Units]:
        """Return the units that a rank trains next, as far as it is known; it may be cut again.

        Args:
            rank: id of the rank.

        Example:
            >>> from flodl.distributed import WindowPlanner
            >>> planner = WindowPlanner(1000, range(2))
            >>> planner.plan.units, planner.stretch(1)
            ((((0, 1),), ((500, 501),)), [(500, 1000)])
        """
        if rank in self._stretches:
            return list(self._stretches[rank])
        plan = self.plan
        if plan is None or rank not in plan.members:
            return []
        return list(plan.units[plan.members.index(rank)])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the decision, as plain numbers, lists and dicts that JSON keeps."""
        plan = self.plan
        return {
            "version": _VERSION,
            "policy": str(self.policy),
            "window": self._window,
            "members": list(self._members),
            "waiting": list(self._waiting),
            "ledger": self.ledger.state_dict(),
            "el_che": self.el_che.state_dict(),
            "guard": None if self.guard is None else self.guard.state_dict(),
            "stretches": [[rank, _flat(part)] for rank, part in sorted(self._stretches.items())],
            "recut_at": self._recut_at,
            "open": list(self._open),
            "held": [[rank, _flat(part)] for rank, part in sorted(self._held.items())],
            "plan": None if plan is None else _plan_state(plan),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned; policies Cadence and Async share one.

        With the members of the state, the run continues exactly. With others, what is committed and
        learned is kept, and the rest of the epoch is divided among the present members.

        Raises:
            ValueError: another version of flodl or another policy wrote the state.
        """
        found = (state.get("version"), state.get("policy"))
        alike = _AVERAGING if self.policy in _AVERAGING else (self.policy,)
        if found[0] != _VERSION or found[1] not in alike:
            raise ValueError(
                f"the state is of version {found[0]} and policy {found[1]}, not {_VERSION} and "
                f"{self.policy}; resume with the flodl and the policy that wrote it"
            )
        self._window = int(state["window"])
        self.ledger.load_state_dict(state["ledger"])
        self.el_che.load_state_dict(state["el_che"])
        if self.guard is not None and state["guard"] is not None:
            self.guard.load_state_dict(state["guard"])
        self._stretches, self._held, self._ahead = {}, {}, None
        if tuple(state["members"]) != self._members:
            self.plan = self._next_plan()
            return
        self._waiting = tuple(state["waiting"])
        self._stretches = {rank: _pairs(part) for rank, part in state["stretches"]}
        self._held = {rank: _pairs(part) for rank, part in state["held"]}
        self._recut_at = int(state["recut_at"])
        self._open = (state["open"][0], state["open"][1])
        self.plan = None if state["plan"] is None else _plan_of(state["plan"])

    def _learn(self, plan: WindowPlan, rows: Sequence[ControlRow]) -> None:
        """Feed the guard, then El Che: a verdict on this window bounds the next anchor."""
        verdict = Verdict.STABLE
        if self.guard is not None and self.policy is not ApplyPolicy.SYNC:
            drifts = [row.drift for row in rows]
            drift = math.nan if any(map(math.isnan, drifts)) else max(drifts)
            verdict = self.guard.observe(drift, _mean_loss(rows))
        if verdict is Verdict.HALVE:
            self.el_che.halve()
        cut = set()
        if plan.seconds is not None:
            expected = dict(zip(plan.members, plan.counts, strict=True))
            late = plan.seconds / _CUT_OFF
            cut = {
                row.rank
                for row in rows
                if row.busy > late or row.done <= _CUT_OFF * expected[row.rank]
            }
        self.el_che.report(
            [row.done for row in rows],
            [row.busy for row in rows],
            min([row.sync for row in rows if row.sync is not None], default=None),
            members=self._members,
            cut=cut,
            hold_growth=verdict is not Verdict.STABLE,
        )

    def _commit(self, plan: WindowPlan, rows: Sequence[ControlRow]) -> None:
        """Put the units of the rows into the ledger; the rest of each stretch stays with its rank."""
        units = dict(zip(plan.members, plan.units, strict=True))
        trained: list[Units] = []
        # A plan by count has the first units of each stretch. The last window has no stretches.
        stretches = self._stretches
        for row in rows:
            rank = row.rank
            taken, rest = take_units(stretches[rank] if stretches else units[rank], row.done)
            trained += taken
            if stretches:
                stretches[rank] = rest
        self.ledger.commit(trained)

    def _collect(self, plan: WindowPlan, rows: Sequence[ControlRow]) -> list[Units]:
        """Hold the sums of this round; commit the update if it is complete, else return what is missing.

        The sums of a rank that is dead are lost, also those of earlier rounds.
        """
        units = dict(zip(plan.members, plan.units, strict=True))
        self._held = {
            row.rank: self._held.get(row.rank, []) + take_units(units[row.rank], row.done)[0]
            for row in rows
        }
        held = merge_units(part for parts in self._held.values() for part in parts)
        missing = missing_units(*self._open, held)
        if not missing:
            self.ledger.commit([self._open])
            self._held = {}
        return missing

    def _make_up(self, plan: WindowPlan, missing: list[Units]) -> WindowPlan:
        counts = divide(count_units(missing), self.el_che.weights(self._members))
        return self._plan_of(counts, cut_units(missing, counts), None, turn=plan.round + 1)

    def _next_plan(self) -> WindowPlan | None:
        expected = self.el_che.plan(self._members)
        left = self.ledger.left
        if not left:
            return None
        if self.policy is ApplyPolicy.SYNC:
            first = self.ledger.total - left
            self._open = (first, first + min(self.accumulate, left))
            counts = divide(self._open[1] - first, self.el_che.weights(self._members))
            return self._plan_of(counts, cut_units([self._open], counts), None)
        if left <= sum(expected):
            return self._last_plan(left)
        self._cut_stretches(expected)
        stretches = [self._stretches[rank] for rank in self._members]
        if not self.el_che.is_by_count:
            return self._plan_of(expected, stretches, self.el_che.window)
        parts = [take_units(part, n)[0] for part, n in zip(stretches, expected, strict=True)]
        return self._plan_of(expected, parts, None)

    def _last_plan(self, left: int) -> WindowPlan:
        """Return the last window of an epoch: exactly the units that are left, ended together."""
        difference = self.el_che.difference
        counts = divide(
            left,
            self.el_che.weights(self._members),
            None if difference is None else max(difference, 1),
        )
        self._stretches = {}
        return self._plan_of(counts, cut_units(self.ledger.remaining(), counts), None)

    def _cut_stretches(self, expected: Sequence[int]) -> None:
        """Cut what remains into a stretch for each member, unless the present ones still serve."""
        left, stretches = self.ledger.left, self._stretches
        serve = stretches.keys() == set(self._members) and left > self._recut_at
        if serve and all(
            _holds(stretches[rank], count)
            for rank, count in zip(self._members, expected, strict=True)
        ):
            return
        weights = (
            [1.0 / count for count in expected]
            if self.el_che.is_by_count
            else self.el_che.weights(self._members)
        )
        # Each stretch holds at least the next window, also where kept counts do not fit the speeds.
        surplus = divide(left - sum(expected), weights)
        parts = cut_units(self.ledger.remaining(), map(operator.add, expected, surplus))
        self._stretches = dict(zip(self._members, parts, strict=True))
        # Before any time is known, the parts are guesses: they are cut again after the first window.
        self._recut_at = left // 2 if self.el_che.window else left - 1

    def _plan_of(
        self,
        counts: Sequence[int],
        units: Iterable[Sequence[Units]],
        seconds: float | None,
        *,
        turn: int = 0,
    ) -> WindowPlan:
        pace = self.el_che.seconds(self._members)
        return WindowPlan(
            window=self._window,
            round=turn,
            members=self._members,
            counts=tuple(counts),
            seconds=seconds,
            pace=tuple(pace),
            grace=0.5 / math.fsum([1.0 / one for one in pace]),
            units=tuple(tuple(part) for part in units),
        )


def _check_rows(plan: WindowPlan, rows: Sequence[ControlRow]) -> None:
    """Raise a ValueError unless the rows belong to a plan, and their ranks share one state."""
    if not rows:
        raise ValueError(f"no rank reports window {plan.window}; without rows nothing is decided")
    places = {rank: place for place, rank in enumerate(plan.members)}
    last, window, turn, crc = -1, plan.window, plan.round, rows[0].crc
    for row in rows:
        rank, place = row.rank, places.get(row.rank)
        if rank == last:
            raise ValueError(f"rank {rank} reports window {window} twice")
        last = rank
        if place is None:
            raise ValueError(f"rank {rank} is no member of window {window}")
        if row.window != window or row.round != turn:
            raise ValueError(
                f"rank {rank} reports round {row.round} of window {row.window}, the others are in "
                f"round {turn} of window {window}; send it the state of a rank that is ahead"
            )
        if not 0 <= row.done <= plan.counts[place]:
            most = count_units(plan.units[place])
            if not 0 <= row.done <= most:
                raise ValueError(f"rank {rank} reports {row.done} units, its plan has {most}")
        sync = row.sync or 0.0
        if not (0.0 <= row.busy < math.inf and 0.0 <= sync < math.inf):
            raise ValueError(
                f"rank {rank} reports {row.busy} s of training and {sync} s of averaging; both must be "
                "at least 0, and finite"
            )
        if row.crc != crc:
            raise ValueError(
                f"ranks {rows[0].rank} and {rank} do not share one state any more in window "
                f"{window}: checksums {crc} and {row.crc}; resume from a checkpoint"
            )


def _holds(stretch: Sequence[Units], count: int) -> bool:
    """Return True if a stretch has so many units; mostly its first range has them."""
    if not stretch:
        return False
    start, stop = stretch[0]
    return stop - start >= count or count_units(stretch) >= count


def _mean_loss(rows: Sequence[ControlRow]) -> float | None:
    """Return the mean loss of the units of a window; ranks without one do not count."""
    known = [(row.loss, row.done) for row in rows if row.loss is not None and row.done]
    if not known:
        return None
    return math.fsum(loss * done for loss, done in known) / sum(done for _, done in known)


def _flat(ranges: Iterable[Units]) -> list[int]:
    return [bound for units in ranges for bound in units]


def _pairs(bounds: Sequence[int]) -> list[Units]:
    return list(zip(bounds[::2], bounds[1::2], strict=True))


def _plan_state(plan: WindowPlan) -> dict[str, Any]:
    return {
        "window": plan.window,
        "round": plan.round,
        "members": list(plan.members),
        "counts": list(plan.counts),
        "seconds": plan.seconds,
        "pace": list(plan.pace),
        "grace": plan.grace,
        "units": [_flat(part) for part in plan.units],
    }


def _plan_of(state: Mapping[str, Any]) -> WindowPlan:
    return WindowPlan(
        window=state["window"],
        round=state["round"],
        members=tuple(state["members"]),
        counts=tuple(state["counts"]),
        seconds=state["seconds"],
        pace=tuple(state["pace"]),
        grace=state["grace"],
        units=tuple(tuple(_pairs(part)) for part in state["units"]),
    )
