"""Rows and plans of a window."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.distributed import ApplyPolicy, ControlRow, WindowPlan

NUMBERS = st.floats(0.0, 1e6)


@given(
    st.builds(
        ControlRow,
        rank=st.integers(0, 10**6),
        window=st.integers(0, 2**40),
        round=st.integers(0, 9),
        done=st.integers(0, 10**6),
        busy=NUMBERS,
        data_wait=NUMBERS,
        sync=st.none() | NUMBERS,
        drift=NUMBERS,
        loss=st.none() | st.floats(allow_nan=False),
        crc=st.integers(0, 2**53 - 1),
        wish=st.integers(0, 15),
        asked=st.integers(0, 10**6),
    )
)
def test_row_survives_the_trip_as_numbers(row):
    numbers = row.to_numbers()
    assert len(numbers) == 12
    assert all(type(number) is float for number in numbers)
    assert ControlRow.from_numbers(numbers) == row


def test_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="a control row has 12 numbers, not 9"):
        ControlRow.from_numbers([0.0] * 9)


def test_policy_has_the_names_of_both_frameworks():
    assert list(ApplyPolicy) == ["sync", "cadence", "async"]
    assert ApplyPolicy.Async is ApplyPolicy.ASYNC


def plan(seconds):
    return WindowPlan(
        window=0,
        round=0,
        members=(3, 5),
        counts=(4, 2),
        seconds=seconds,
        pace=(1.0, 2.0),
        grace=0.25,
        units=(((0, 9),), ((9, 12),)),
    )


def test_window_of_seconds_starts_no_unit_that_would_end_later_than_its_grace():
    window = plan(4.0)
    assert window.has_time(0, 3, 3.2)
    assert not window.has_time(0, 3, 3.3)
    assert window.has_time(0, 3, 3.3, pace=0.9)
    assert window.has_time(0, 5, 3.2)


def test_window_of_seconds_without_grace_still_holds_the_unit_that_fills_it():
    window = replace(plan(0.3), grace=0.0, pace=(0.1, 0.1))
    assert 0.1 + 0.1 + 0.1 > 0.3
    assert window.has_time(0, 2, 0.1 + 0.1)
    assert not window.has_time(0, 2, 0.201)


def test_window_of_seconds_starts_one_unit_at_any_pace():
    assert plan(4.0).has_time(1, 0, 0.0, pace=9.0)
    assert not plan(4.0).has_time(1, 1, 9.0, pace=9.0)


def test_window_that_ended_before_the_rank_came_is_left_out():
    assert not plan(4.0).has_time(0, 0, 4.0)


def test_window_of_counts_ends_with_the_count():
    assert [plan(None).has_time(1, done, 1e9) for done in range(4)] == [True, True, False, False]
