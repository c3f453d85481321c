"""Counts of windows, and the choice among them, against plain loops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.distributed.window_shapes import WindowShapes

TIMES = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=40)


def counts(anchor, walls, done=None, **settings):
    seconds = [wall / (done or 10) for wall in walls]
    return WindowShapes(seconds, 0.0, **settings).counts(anchor)


@pytest.mark.parametrize(
    ("anchor", "walls", "expected"),
    [
        (10, [500, 1000], [20, 10]),
        (10, [730, 1640], [22, 10]),
        (40, [500, 1000], [80, 40]),
        (50, [1000, 1000], [50, 50]),
        (30, [100, 100], [30, 30]),
        (10, [333, 500, 1000], [30, 20, 10]),
        (20, [50, 100], [40, 20]),
        (1, [1000, 2000], [2, 1]),
    ],
)
def test_counts_of_an_anchor_equal_the_published_values(anchor, walls, expected):
    assert counts(anchor, walls) == expected


def test_counts_with_a_bounded_difference_keep_it():
    assert counts(10, [100, 500], max_diff=3) == [13, 10]
    assert counts(10, [100, 500], max_diff=0) == [10, 10]


def test_counts_with_shares_follow_the_shares():
    assert counts(4, [100, 100, 900], shares=[0.5, 0.25, 0.25]) == [8, 4, 4]


@given(TIMES, st.integers(1, 60), st.none() | st.integers(0, 5))
def test_total_is_the_sum_of_the_counts(seconds, anchor, max_diff):
    shapes = WindowShapes(seconds, 0.01, max_diff=max_diff)
    assert shapes.total(anchor) == sum(shapes.counts(anchor))


@given(
    TIMES,
    st.floats(0.0, 2.0),
    st.integers(1, 60),
    st.floats(0.5, 0.999),
    st.none() | st.integers(0, 5),
)
def test_chosen_anchor_is_that_of_a_plain_loop(seconds, sync, limit, goal, max_diff):
    shapes = WindowShapes(seconds, sync, max_diff=max_diff)
    found = [shapes.efficiency(anchor) for anchor in range(1, limit + 1)]
    enough = [anchor for anchor, each in enumerate(found, 1) if each >= goal]
    chosen = shapes.choose(limit, goal)
    if enough:
        assert chosen == enough[0]
    else:
        assert found[chosen - 1] == max(found)


def test_anchor_without_a_reachable_goal_is_the_best_one_and_not_the_largest():
    assert WindowShapes([0.010, 0.025], 0.002).choose(3, 0.97) == 2
    assert WindowShapes([1.0, 1.0], 0.0).choose(5, 1.5) == 1


@given(TIMES, st.floats(0.0, 2.0), st.integers(1, 60))
def test_efficiency_is_that_of_the_counts_or_less(seconds, sync, anchor):
    shapes = WindowShapes(seconds, sync)
    exact = shapes.efficiency_of(shapes.counts(anchor), seconds)
    assert shapes.efficiency(anchor) == pytest.approx(exact, rel=1e-6)
    assert 0.0 < exact <= 1.0 + 1e-9


def test_goal_beyond_fixed_shares_is_taken_relative_to_them():
    # Equal shares of ranks at 4:1 train 2 units where 5 are possible; 97 % of those 40 % is the goal.
    shapes = WindowShapes([1.0, 4.0], 0.4, shares=[1.0, 1.0])
    anchor = shapes.choose(200, 0.97)
    assert anchor == 4
    assert shapes.efficiency(anchor) == pytest.approx(0.975 * 0.4, rel=0.001)
