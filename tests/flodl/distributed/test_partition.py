"""Units divided among ranks: none lost, none invented, and no division ends earlier."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.distributed import divide

TIMES = st.floats(0.01, 100.0)


def makespan(counts, seconds):
    return max(count * one for count, one in zip(counts, seconds, strict=True))


@given(st.integers(0, 9), st.lists(TIMES, min_size=1, max_size=4))
def test_divide_ends_as_early_as_the_best_of_all_divisions(total, seconds):
    counts = divide(total, seconds)
    every = itertools.product(range(total + 1), repeat=len(seconds))
    best = min(makespan(each, seconds) for each in every if sum(each) == total)
    assert makespan(counts, seconds) == pytest.approx(best, rel=1e-12)


@given(st.integers(0, 10**6), st.lists(TIMES, min_size=1, max_size=50))
def test_divide_gives_every_unit_once_and_stays_near_the_even_share(total, seconds):
    counts = divide(total, seconds)
    assert sum(counts) == total
    even = total / math.fsum(1.0 / one for one in seconds)
    assert min(counts) >= 0
    assert makespan(counts, seconds) <= (even + max(seconds)) * (1 + 1e-9)


def test_divide_among_unequal_ranks_equals_the_values_computed_by_hand():
    assert divide(8, [0.010, 0.025]) == [6, 2]
    assert divide(60, [1.0, 2.0, 3.0]) == [33, 16, 11]
    assert divide(0, [1.0]) == [0]


def test_divide_gives_one_rank_several_of_the_last_units():
    assert divide(99, [1.0, 98.5, 98.5, 98.5]) == [98, 1, 0, 0]


def test_divide_fewer_units_than_ranks_leaves_the_slowest_without():
    assert divide(2, [3.0, 1.0, 2.0, 1.5]) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("total", "seconds", "message"),
    [
        (-1, [1.0], "cannot divide -1 units"),
        (3, [], "`seconds` is empty"),
        (3, [1.0, 0.0], r"seconds\[1\] is 0.0"),
        (3, [math.inf], r"seconds\[0\] is inf"),
        (3, [math.nan], r"seconds\[0\] is nan"),
    ],
)
def test_divide_with_an_impossible_argument_says_which(total, seconds, message):
    with pytest.raises(ValueError, match=message):
        divide(total, seconds)


@given(st.integers(0, 200), st.lists(TIMES, min_size=1, max_size=8), st.integers(1, 20))
def test_divide_with_a_bounded_difference_keeps_it_and_gives_every_unit(total, seconds, most):
    counts = divide(total, seconds, max_diff=most)
    assert sum(counts) == total
    assert max(counts) - min(counts) <= most


@given(st.integers(0, 9), st.lists(TIMES, min_size=1, max_size=4))
def test_divide_with_a_difference_that_does_not_bind_is_unchanged(total, seconds):
    assert divide(total, seconds, max_diff=total + 1) == divide(total, seconds)


def test_divide_into_a_band_that_only_one_position_can_hold_finds_it():
    assert divide(49, [1.0, 1.0, 2.0], max_diff=1) == [17, 16, 16]


@given(st.integers(0, 9), st.lists(TIMES, min_size=1, max_size=4), st.integers(1, 4))
def test_divide_with_a_bounded_difference_is_near_the_best_of_all(total, seconds, most):
    every = itertools.product(range(total + 1), repeat=len(seconds))
    bounded = [c for c in every if sum(c) == total and max(c) - min(c) <= most]
    best = min(makespan(each, seconds) for each in bounded)
    counts = divide(total, seconds, max_diff=most)
    assert makespan(counts, seconds) <= best + max(seconds) * (1 + 1e-9)


def test_divide_with_a_difference_of_zero_is_refused():
    with pytest.raises(ValueError, match="max_diff is 0"):
        divide(2, [1.0, 1.0], max_diff=0)
