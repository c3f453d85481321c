"""Decisions from gathered rows: the same on every rank, and each unit of an epoch exactly once."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.distributed import (
    ApplyPolicy,
    ControlRow,
    ConvergenceGuard,
    ElChe,
    WindowPlanner,
)
from flodl.distributed.unit_ledger import count_units, take_units


def units_of(ranges):
    return [unit for start, stop in ranges for unit in range(start, stop)]


def row_of(plan, rank, pace, done=None, **fields):
    position = plan.members.index(rank)
    available = count_units(plan.units[position])
    if done is None:
        done = plan.counts[position]
        if plan.seconds is not None:
            done = max(1, int((plan.seconds * (1 + 1e-6) + plan.grace) / pace))
    done = min(done, available if plan.seconds is not None else plan.counts[position])
    return ControlRow(
        rank=rank, window=plan.window, round=plan.round, done=done, busy=done * pace, **fields
    )


def rows_of(plan, paces, **fields):
    return [row_of(plan, rank, paces[rank], **fields) for rank in plan.members]


def planner_after_one(paces, total=1000, **settings):
    planner = WindowPlanner(total, range(len(paces)), **settings)
    planner.decide(rows_of(planner.plan, paces, sync=0.002))
    return planner


def test_first_window_is_one_unit_for_each_rank_by_count():
    plan = WindowPlanner(1000, range(2)).plan
    assert (plan.window, plan.members, plan.counts, plan.seconds) == (0, (0, 1), (1, 1), None)
    assert plan.units == (((0, 1),), ((500, 501),))


def test_second_window_has_the_time_of_the_anchor_and_stretches_by_speed():
    planner = planner_after_one([0.010, 0.025])
    plan = planner.plan
    assert (plan.counts, plan.seconds) == ((10, 4), pytest.approx(0.1))
    assert [count_units(part) for part in plan.units] == [713, 285]
    assert plan.units == (((1, 500), (501, 715)), ((715, 1000),))


def test_stretch_continues_where_the_rank_stopped():
    planner = planner_after_one([0.010, 0.025])
    before = planner.plan
    after = planner.decide(rows_of(before, [0.010, 0.025], sync=0.002))
    for position in range(2):
        trained, rest = take_units(before.units[position], (10, 4)[position])
        assert list(after.units[position]) == rest
        assert all(unit in planner.ledger for unit in units_of(trained))


def test_stretches_are_cut_again_when_half_of_them_is_trained():
    planner = planner_after_one([0.010, 0.025])
    assert planner.ledger.left == 998
    while planner.ledger.left > 499:
        assert planner.plan.units[0][-1][1] == 715
        planner.decide(rows_of(planner.plan, [0.010, 0.050], sync=0.002))
    assert (
        planner.plan.units[0][-1][1] > 715
    )  # the faster rank takes from the stretch of the other


def test_stretches_are_cut_again_when_one_runs_out():
    planner = planner_after_one([0.010, 0.010, 0.010])
    plan = planner.plan
    whole = count_units(plan.units[0])
    after = planner.decide([row_of(plan, 0, 0.001, whole), *rows_of(plan, [0.01] * 3)[1:]])
    assert planner.ledger.left > 500
    assert count_units(after.units[0]) >= after.counts[0]


def test_stretches_hold_the_next_window_also_where_kept_counts_do_not_fit_the_speeds():
    planner = planner_after_one([0.010, 0.025], total=17)
    assert planner.ledger.left == 15
    planner._stretches = {}
    planner._cut_stretches([7, 7])
    assert [count_units(part) for part in planner._stretches.values()] == [8, 7]


def test_stretches_follow_the_counts_where_those_are_fixed():
    planner = planner_after_one([0.010, 0.100], el_che=ElChe().max_batch_diff(3))
    counts = planner.plan.counts
    first, second = (count_units(part) for part in planner._stretches.values())
    assert first / second == pytest.approx(counts[0] / counts[1], rel=0.01)


def test_last_window_gives_exactly_the_units_that_are_left():
    planner = planner_after_one([0.010, 0.025], total=20)
    while planner.ledger.left > 14:
        planner.decide(rows_of(planner.plan, [0.010, 0.025], sync=0.002))
    left = planner.ledger.left
    assert planner.plan.seconds is None
    assert sum(planner.plan.counts) == left
    assert planner.decide(rows_of(planner.plan, [0.010, 0.025])) is None
    assert planner.ledger.is_complete


def test_next_epoch_keeps_what_was_learned():
    planner = planner_after_one([0.010, 0.025], total=2)
    assert planner.plan is None
    plan = planner.start_epoch(500)
    assert (plan.window, plan.counts) == (1, (10, 4))
    with pytest.raises(ValueError, match="500 units of the epoch are not committed"):
        planner.start_epoch(500)


def test_dead_rank_leaves_its_units_to_the_others():
    planner = planner_after_one([0.010, 0.025, 0.025])
    plan = planner.plan
    after = planner.decide([row_of(plan, 0, 0.010), row_of(plan, 2, 0.025)])
    assert after.members == (0, 2)
    planned = [unit for part in after.units for unit in units_of(part)]
    assert sorted(planned) == units_of(planner.ledger.remaining())


def test_rank_that_joins_begins_as_the_slowest_one():
    planner = planner_after_one([0.010, 0.025])
    plan = planner.decide(rows_of(planner.plan, [0.010, 0.025]), joined=[7])
    assert plan.members == (0, 1, 7)
    assert plan.counts[2] == plan.counts[1]


def test_slowed_rank_that_was_cut_off_gets_the_right_plan_at_once():
    planner = planner_after_one([0.010, 0.010])
    assert planner.plan.counts[0] == planner.plan.counts[1]
    plan = planner.decide(rows_of(planner.plan, [0.010, 0.100], sync=0.002))
    assert plan.pace == pytest.approx((0.010, 0.100))
    assert plan.counts[0] == 10 * plan.counts[1]


def test_slowed_rank_with_a_count_of_one_is_believed_at_once_too():
    planner = planner_after_one([0.010, 0.100])
    assert planner.plan.counts == (10, 1)
    plan = planner.decide(rows_of(planner.plan, [0.010, 0.500], sync=0.002))
    assert plan.pace == pytest.approx((0.010, 0.500))


def test_sync_window_is_an_exact_number_of_consecutive_units_over_all_ranks():
    planner = WindowPlanner(30, range(2), policy=ApplyPolicy.SYNC, accumulate=7)
    seen = []
    while planner.plan is not None:
        seen.append([unit for part in planner.plan.units for unit in units_of(part)])
        planner.decide(rows_of(planner.plan, [0.010, 0.025]))
    assert seen == [[*range(7)], [*range(7, 14)], [*range(14, 21)], [*range(21, 28)], [28, 29]]


def test_sync_counts_follow_the_speeds():
    planner = WindowPlanner(30, range(2), policy=ApplyPolicy.SYNC, accumulate=7)
    assert planner.plan.counts == (4, 3)
    planner.decide(rows_of(planner.plan, [0.010, 0.025]))
    assert planner.plan.counts == (5, 2)


def test_sync_window_is_committed_only_after_dead_ranks_units_are_made_up():
    planner = WindowPlanner(30, range(3), policy=ApplyPolicy.SYNC, accumulate=6)
    plan = planner.plan
    rows = [row_of(plan, 0, 0.01), row_of(plan, 1, 0.01)]
    again = planner.decide(rows, joined=[5])
    assert (again.window, again.round, again.members) == (0, 1, (0, 1))
    assert [unit for part in again.units for unit in units_of(part)] == units_of(plan.units[2])
    assert planner.ledger.committed == 0
    stored = WindowPlanner(30, range(2), policy=ApplyPolicy.SYNC, accumulate=6)
    stored.load_state_dict(planner.state_dict())
    for each in (planner, stored):
        after = each.decide(rows_of(again, [0.01, 0.01]))
        assert (after.window, after.round, after.members) == (1, 0, (0, 1, 5))
        assert each.ledger.ranges == ((0, 6),)
        assert each.state_dict()["held"] == []


def test_sums_of_a_rank_that_dies_in_a_later_round_are_made_up_too():
    planner = WindowPlanner(30, range(3), policy=ApplyPolicy.SYNC, accumulate=6)
    first = planner.plan
    second = planner.decide([row_of(first, 0, 0.01), row_of(first, 1, 0.01)])
    third = planner.decide([row_of(second, 1, 0.01)])
    missing = [*units_of(first.units[0]), *units_of(second.units[0])]
    assert units_of(third.units[0]) == sorted(missing)
    planner.decide([row_of(third, 1, 0.01)])
    assert planner.ledger.ranges == ((0, 6),)


def test_bounded_difference_holds_in_every_window_and_in_the_last():
    planner = WindowPlanner(100, range(3), el_che=ElChe().max_batch_diff(2))
    while planner.plan is not None:
        counts = planner.plan.counts
        assert planner.plan.seconds is None
        assert max(counts) - min(counts) <= 2
        planner.decide(rows_of(planner.plan, [0.01, 0.05, 0.02], sync=0.004))
    assert planner.ledger.is_complete


@pytest.mark.parametrize("total", range(10, 30))
def test_bounded_difference_holds_in_the_last_window_of_any_epoch(total):
    planner = WindowPlanner(total, range(2), el_che=ElChe().max_batch_diff(2))
    while planner.plan is not None:
        assert max(planner.plan.counts) - min(planner.plan.counts) <= 2
        planner.decide(rows_of(planner.plan, [0.01, 0.1], sync=0.002))


def test_partition_holds_in_every_window():
    planner = WindowPlanner(100, range(2), el_che=ElChe().partition([3, 1]))
    trained = [0, 0]
    while planner.plan is not None:
        trained = [a + b for a, b in zip(trained, planner.plan.counts, strict=True)]
        planner.decide(rows_of(planner.plan, [0.01, 0.01], sync=0.004))
    assert trained == [75, 25]


def test_guard_halves_the_anchor_before_it_is_chosen_and_holds_it():
    planner = WindowPlanner(10**6, range(2), guard=ConvergenceGuard(0.05))
    anchors = []
    for window in range(17):
        drift = 0.2 if 3 <= window < 6 else 0.01
        planner.decide(rows_of(planner.plan, [0.010, 0.010], sync=0.020, drift=drift))
        anchors.append(planner.el_che.anchor)
    full = anchors[0]
    assert full > 20
    assert anchors == [full] * 5 + [-(-full // 2)] * 11 + [full]


def test_drift_of_one_rank_that_is_no_number_counts():
    planner = WindowPlanner(10**6, range(2), guard=ConvergenceGuard())
    for _ in range(3):
        drifts = (0.01, math.nan)
        plan = planner.plan
        planner.decide(
            [row_of(plan, rank, 0.01, sync=0.02, drift=drifts[rank]) for rank in (0, 1)]
        )
    assert planner.guard.state_dict()["held"] == 10


def test_loss_of_a_window_is_the_mean_over_units():
    planner = WindowPlanner(100, range(3), guard=ConvergenceGuard())
    planner.decide(rows_of(planner.plan, [0.01, 0.03, 0.03], sync=0.0))
    losses, done = (1.0, 5.0, None), (3, 1, 1)
    assert planner.plan.counts == done
    planner.decide([row_of(planner.plan, r, 0.01, done[r], loss=losses[r]) for r in range(3)])
    assert planner.guard.state_dict()["losses"] == [2.0]


def test_cost_of_averaging_is_that_of_the_rank_that_waited_least():
    planner = WindowPlanner(100, range(2))
    syncs = (0.030, 0.002)
    planner.decide([row_of(planner.plan, r, 0.01, sync=syncs[r]) for r in range(2)])
    assert planner.el_che.sync == 0.002


def test_guard_is_deaf_to_drift_in_sync():
    planner = WindowPlanner(
        10**4, range(2), policy=ApplyPolicy.SYNC, guard=ConvergenceGuard(), accumulate=4
    )
    before = planner.guard.state_dict()
    for _ in range(5):
        planner.decide(rows_of(planner.plan, [0.01, 0.01], drift=9.0))
    assert planner.guard.state_dict() == before


PACES = st.lists(st.floats(0.005, 0.1), min_size=1, max_size=5)
EVENTS = st.lists(
    st.tuples(st.sampled_from(["run", "run", "die", "join", "slow", "fast"]), st.integers(0, 9)),
    max_size=25,
)


MAKERS = st.sampled_from(
    [ElChe, lambda: ElChe().max_batch_diff(3), lambda: ElChe().partition([3, 1, 2])]
)


@given(
    PACES,
    EVENTS,
    st.sampled_from(list(ApplyPolicy)),
    st.integers(1, 9),
    st.integers(0, 400),
    MAKERS,
)
def test_every_unit_is_trained_once_whatever_happens(
    paces, events, policy, accumulate, total, el_che
):
    """Two planners see the same rows; one is stored and read before every decision."""

    def planner(members):
        return WindowPlanner(total, members, policy=policy, accumulate=accumulate, el_che=el_che())

    first, second = planner(range(len(paces))), planner(range(len(paces)))
    paces, influence = dict(enumerate(paces)), [0] * total
    script = iter(events)
    while (plan := first.plan) is not None:
        kind, number = next(script, ("run", 0))
        planned = [count_units(part) for part in plan.units]
        assert all(units >= n for units, n in zip(planned, plan.counts, strict=True))
        alive, joined = list(plan.members), []
        if kind == "die" and len(alive) > 1:
            alive.remove(alive[number % len(alive)])
        elif kind == "join":
            joined = [max(paces) + 1]
            paces[joined[0]] = 0.02
        elif kind in ("slow", "fast"):
            paces[alive[number % len(alive)]] *= 10 if kind == "slow" else 0.2
        before = {unit for unit in range(total) if unit in first.ledger}
        rows = [row_of(plan, rank, paces[rank], sync=0.001) for rank in alive]
        first.decide(rows, joined)
        state = json.loads(json.dumps(second.state_dict()))
        second = planner(state["members"])
        second.load_state_dict(state)
        second.decide(list(reversed(rows)), joined)
        assert first.state_dict() == second.state_dict()
        for unit in range(total):
            influence[unit] += unit in first.ledger and unit not in before
    assert influence == [1] * total


def test_state_resumed_by_other_ranks_keeps_the_ledger_and_divides_the_rest():
    planner = planner_after_one([0.010, 0.025, 0.025])
    planner.decide(rows_of(planner.plan, [0.010, 0.025, 0.025], sync=0.002))
    resumed = WindowPlanner(1000, range(5))
    resumed.load_state_dict(planner.state_dict())
    assert resumed.ledger.ranges == planner.ledger.ranges
    planned = [unit for part in resumed.plan.units for unit in units_of(part)]
    assert sorted(planned) == units_of(planner.ledger.remaining())


def test_state_of_another_policy_is_refused():
    state = WindowPlanner(10, range(2)).state_dict()
    with pytest.raises(ValueError, match="policy cadence, not 1 and sync"):
        WindowPlanner(10, range(2), policy=ApplyPolicy.SYNC).load_state_dict(state)


def changed(**fields):
    planner = WindowPlanner(100, range(2))
    values = {"rank": 0, "window": 0, "done": 1, "busy": 0.1, **fields}
    return planner, [ControlRow(**values), ControlRow(rank=1, window=0, done=1, busy=0.1)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 1}, "rank 1 reports window 0 twice"),
        ({"rank": 4}, "rank 4 is no member of window 0"),
        (
            {"window": 1},
            "rank 0 reports round 0 of window 1, the others are in round 0 of window 0",
        ),
        ({"round": 1}, "rank 0 reports round 1 of window 0"),
        ({"done": 2}, "rank 0 reports 2 units, its plan has 1"),
        ({"done": -1}, "rank 0 reports -1 units"),
        ({"busy": math.nan}, "rank 0 reports nan s of training"),
        ({"busy": -1.0}, r"rank 0 reports -1\.0 s of training"),
        ({"sync": math.inf}, r"rank 0 reports 0\.1 s of training and inf s of averaging"),
        (
            {"crc": 7},
            "ranks 0 and 1 do not share one state any more in window 0: checksums 7 and 0",
        ),
    ],
)
def test_row_that_does_not_fit_the_plan_is_named(fields, message):
    planner, rows = changed(**fields)
    before = planner.state_dict()
    with pytest.raises(ValueError, match=message):
        planner.decide(rows)
    assert planner.state_dict() == before


def test_decision_without_rows_or_after_the_end_is_refused():
    with pytest.raises(ValueError, match="no rank reports window 0"):
        WindowPlanner(100, range(2)).decide([])
    with pytest.raises(ValueError, match="the epoch is complete"):
        WindowPlanner(0, range(2)).decide([])
    with pytest.raises(ValueError, match="accumulate is 0"):
        WindowPlanner(0, range(2), accumulate=0)
    with pytest.raises(ValueError, match="each one once"):
        WindowPlanner(0, [1, 1])
