"""Repeats in lists of numbers, against a search that tries everything."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.step.regions.repeats import Repeat, find_repeats

NUMBERS = st.lists(st.integers(0, 2), max_size=40)


def copies(numbers, repeat, start):
    return [
        numbers[start + repeat.period * n : start + repeat.period * (n + 1)]
        for n in range(repeat.count)
    ]


@given(NUMBERS, st.integers(1, 12))
def test_find_repeats_gives_equal_copies_that_do_not_overlap(numbers, least):
    found = find_repeats(numbers, least)
    for repeat in found:
        assert repeat.count >= 3
        assert repeat.saved >= least
        for start in range(repeat.start, repeat.start + repeat.slack + 1):
            first, *others = copies(numbers, repeat, start)
            assert all(other == first for other in others)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


@given(NUMBERS)
def test_find_repeats_takes_first_what_saves_most(numbers):
    found = find_repeats(numbers, 1)
    most = max(
        (
            (count - 1) * period
            for period in range(1, len(numbers) // 3 + 1)
            for start in range(len(numbers))
            for count in range(3, (len(numbers) - start) // period + 1)
            if all(
                numbers[start + n] == numbers[start + n % period] for n in range(count * period)
            )
        ),
        default=0,
    )
    assert max((each.saved for each in found), default=0) == most


@pytest.mark.parametrize("numbers", [[], [1], [1, 2, 3, 4], [1, 2, 1, 2]])
def test_find_repeats_without_three_copies_finds_none(numbers):
    assert find_repeats(numbers, 1) == []


def test_find_repeats_of_layers_between_other_numbers():
    layers = [7, *[1, 2, 3] * 4, 8, 8, *[5, 6] * 5, 9]
    assert find_repeats(layers, 4) == [Repeat(1, 3, 0, 4), Repeat(15, 2, 0, 5)]
