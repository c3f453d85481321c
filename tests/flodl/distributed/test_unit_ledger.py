"""The ledger against a set of units: the same algebra, and no unit twice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.distributed import UnitLedger
from flodl.distributed.unit_ledger import count_units, cut_units, merge_units, take_units

TOTAL = 60
UNITS = st.sets(st.integers(0, TOTAL - 1))


def units_of(ranges):
    return [unit for start, stop in ranges for unit in range(start, stop)]


def ledger_of(units):
    ledger = UnitLedger(TOTAL)
    ledger.commit([(unit, unit + 1) for unit in units])
    return ledger


@given(UNITS)
def test_ledger_holds_the_committed_units_in_as_few_ranges_as_possible(units):
    ledger = ledger_of(units)
    assert units_of(ledger.ranges) == sorted(units)
    assert units_of(ledger.remaining()) == sorted(set(range(TOTAL)) - units)
    assert len(ledger.ranges) == sum(unit - 1 not in units for unit in units)
    assert (ledger.committed, ledger.left) == (len(units), TOTAL - len(units))
    assert [unit in ledger for unit in range(-1, TOTAL + 1)] == [
        unit in units for unit in range(-1, TOTAL + 1)
    ]
    assert ledger.is_complete == (len(units) == TOTAL)


@given(UNITS, UNITS)
def test_union_holds_the_units_of_both_or_names_a_common_one(first, second):
    if first & second:
        with pytest.raises(
            ValueError, match="occur twice: each unit of an epoch is committed once"
        ):
            ledger_of(first).union(ledger_of(second))
    else:
        both = ledger_of(first).union(ledger_of(second))
        assert both.ranges == ledger_of(first | second).ranges


@given(st.lists(UNITS, max_size=6))
def test_refused_window_leaves_the_ledger_as_it_was(windows):
    ledger, known = UnitLedger(TOTAL), set()
    for window in windows:
        ranges = [(unit, unit + 1) for unit in window]
        if window & known:
            before = ledger.state_dict()
            with pytest.raises(ValueError, match="occur twice"):
                ledger.commit(ranges)
            assert ledger.state_dict() == before
        else:
            ledger.commit(ranges)
            known |= window
    assert units_of(ledger.ranges) == sorted(known)


@given(UNITS)
def test_stored_ledger_is_the_same(units):
    ledger = ledger_of(units)
    read = UnitLedger(0)
    read.load_state_dict(json.loads(json.dumps(ledger.state_dict())))
    assert (read.total, read.ranges) == (TOTAL, ledger.ranges)
    assert (read.left, read.committed) == (ledger.left, ledger.committed)


@given(UNITS, st.integers(0, TOTAL + 5))
def test_take_splits_ranges_after_a_number_of_units(units, count):
    taken, rest = take_units(ledger_of(units).ranges, count)
    assert units_of(taken) == sorted(units)[:count]
    assert units_of(rest) == sorted(units)[count:]


@given(UNITS, st.lists(st.integers(0, 20), max_size=6))
def test_cut_gives_each_piece_its_number_in_order(units, counts):
    ordered, pieces = sorted(units), []
    for count in counts:
        pieces.append(ordered[:count])
        ordered = ordered[count:]
    found = cut_units(ledger_of(units).ranges, [len(piece) for piece in pieces])
    assert [units_of(piece) for piece in found] == pieces


def test_windows_of_many_ranks_leave_one_range_for_each():
    ledger = UnitLedger(1_000_000)
    for window in range(50):
        ledger.commit([(r * 1000 + window * 9, r * 1000 + window * 9 + 9) for r in range(1000)])
    assert len(ledger.ranges) == 1000
    assert ledger.committed == count_units(ledger.ranges) == 450_000


def test_merge_joins_ranges_that_touch():
    assert merge_units([(5, 6), (0, 2), (2, 5), (8, 9)]) == [(0, 6), (8, 9)]
    assert merge_units([]) == []


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([(0, 3), (2, 5)], "units 2 to 2 occur twice"),
        ([(8, 12)], "units 8 to 9 occur twice"),
        ([(-1, 3)], "no units from -1 up to 3: the epoch has 20 units"),
        ([(3, 3)], "no units from 3 up to 3"),
        ([(18, 21)], "no units from 18 up to 21"),
    ],
)
def test_impossible_commit_is_named(ranges, message):
    ledger = UnitLedger(20)
    ledger.commit([(5, 10)])
    with pytest.raises(ValueError, match=message):
        ledger.commit(ranges)


def test_ledger_of_another_version_or_with_a_torn_range_is_refused():
    with pytest.raises(ValueError, match="version 2, this flodl reads 1"):
        UnitLedger(1).load_state_dict({"version": 2})
    with pytest.raises(ValueError, match="shorter"):
        UnitLedger(1).load_state_dict({"version": 1, "total": 9, "ranges": [1, 2, 3]})
    with pytest.raises(ValueError, match="an epoch of -1 units is impossible"):
        UnitLedger(-1)
    with pytest.raises(ValueError, match="different epochs"):
        UnitLedger(1).union(UnitLedger(2))
