"""Plans of windows that are trained while the one before is added up: each unit exactly once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.distributed import ApplyPolicy, ControlRow, ElChe, WindowPlanner
from flodl.distributed.unit_ledger import count_units, take_units
from tests.flodl.distributed.test_planner import planner_after_one, rows_of, units_of

ASYNC = ApplyPolicy.ASYNC


def row(plan, rank, done, busy=0.1):
    return ControlRow(rank=rank, window=plan.window, done=done, busy=busy, sync=0.002)


def test_window_ahead_reads_on_in_the_same_stretches():
    planner = planner_after_one([0.010, 0.025], policy=ASYNC)
    plan = planner.plan
    ahead = planner.follow()
    assert (ahead.window, ahead.counts, ahead.units) == (plan.window + 1, plan.counts, plan.units)
    now = planner.decide([row(plan, 0, 9), row(plan, 1, 4)])
    assert (now.window, now.seconds) == (ahead.window, ahead.seconds)
    rest = [take_units(part, n)[1] for part, n in zip(plan.units, (9, 4), strict=True)]
    assert [list(part) for part in now.units] == rest
    planner.decide([row(now, 0, 11), row(now, 1, 4)])
    assert units_of(planner.ledger.ranges)[:21] == list(range(21))


def test_window_ahead_is_refused_until_a_time_is_known_and_where_parts_are_cut_again():
    planner = WindowPlanner(1000, range(2), policy=ASYNC)
    assert planner.follow() is None
    planner = planner_after_one([0.010, 0.025], total=40, policy=ASYNC)
    assert planner.follow() is not None
    plan = planner.decide(rows_of(planner.plan, [0.010, 0.025], sync=0.002))
    assert planner.follow() is None  # rank 1 has not enough for two windows
    planner.decide(rows_of(plan, [0.010, 0.025], sync=0.002))
    assert planner.follow() is None  # the last one divides what is left
    assert planner_after_one([0.010, 0.025]).follow() is None  # policy Cadence


def test_window_ahead_after_a_death_is_refused_until_all_is_committed():
    planner = planner_after_one([0.010, 0.010, 0.025], policy=ASYNC)
    plan, ahead = planner.plan, planner.follow()
    now = planner.decide([row(plan, 0, 8), row(plan, 2, 4)])
    assert now.members == ahead.members == (0, 1, 2)
    assert planner.follow() is None
    after = planner.decide([row(now, 0, 8), row(now, 2, 4)])
    assert after.members == (0, 2)
    assert planner.follow() is not None


def test_state_of_cadence_and_async_are_one():
    cadence = planner_after_one([0.010, 0.025])
    state = json.loads(json.dumps(cadence.state_dict()))
    planner = WindowPlanner(1000, range(2), policy=ASYNC)
    planner.load_state_dict(state)
    assert planner.plan == cadence.plan
    back = WindowPlanner(1000, range(2))
    back.load_state_dict(planner.state_dict())
    assert back.plan == cadence.plan
    with pytest.raises(ValueError, match="policy async, not 1 and sync"):
        WindowPlanner(10, range(2), policy=ApplyPolicy.SYNC).load_state_dict(planner.state_dict())


class Rank:
    """A rank of a team that trains one window ahead, as `WindowRunner` does."""

    def __init__(self, number, settings):
        self.number = number
        self.planner = WindowPlanner(*settings, policy=ASYNC, el_che=ElChe(max_anchor=5))
        self.trained = []  # units of windows that are not committed, in order

    def train(self, plan, wanted):
        position = plan.members.index(self.number)
        skipped = len(self.trained)
        rest = take_units(plan.units[position], skipped)[1]
        most = plan.counts[position] if plan.seconds is None else count_units(rest)
        done = min(wanted, most, count_units(rest))
        self.trained += units_of(take_units(rest, done)[0])
        return done


@given(
    total=st.integers(1, 300),
    ranks=st.integers(1, 4),
    draws=st.lists(st.integers(0, 12), min_size=1, max_size=40),
    deaths=st.sets(st.integers(0, 60), max_size=3),
)
def test_units_of_windows_ahead_are_committed_once_whatever_ranks_do(total, ranks, draws, deaths):
    team = [Rank(number, (total, range(ranks))) for number in range(ranks)]
    committed, turn = [], 0
    ready = None
    while team[0].planner.plan is not None:
        plan = team[0].planner.plan
        turn += 1

        def trained(plans, turn=turn):
            return [
                rank.train(each, max(1, draws[(turn + rank.number) % len(draws)]))
                for rank, each in zip(team, plans, strict=True)
            ]

        done = ready or trained([rank.planner.plan for rank in team])
        aheads = [rank.planner.follow() for rank in team]
        assert all(each == aheads[0] for each in aheads)
        ready = None if aheads[0] is None else trained(aheads)
        if turn in deaths and len(team) > 1:  # in the sum: the others repeat it
            place = turn % len(team)
            for each in (team, done, ready or [0] * len(team)):
                del each[place]
        rows = [
            row(plan, rank.number, n, 0.01 * (n + 1)) for rank, n in zip(team, done, strict=True)
        ]
        for rank, n in zip(team, done, strict=True):
            committed += rank.trained[:n]
            del rank.trained[:n]
            rank.planner.decide(rows)
    assert sorted(committed) == list(range(total))
