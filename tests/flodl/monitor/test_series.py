"""A series in bounded memory keeps its extremes, whatever its length."""

import math
import random
from array import array

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flodl.monitor.store import series as series_module
from flodl.monitor.store.frames import Rows
from flodl.monitor.store.live_points import points_payload
from flodl.monitor.store.series import Series

pytestmark = pytest.mark.torch


def filled(values, chunk=100):
    found = Series()
    for at in range(0, len(values), chunk):
        part = array("d", values[at : at + chunk])
        steps = array("d", range(at, at + len(part)))
        found.extend(steps, steps, part)
    return found


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400),
    st.integers(1, 50),
    st.integers(2, 30),
)
@pytest.mark.slow
def test_no_extreme_is_lost(values, chunk, points):
    found = filled(values, chunk).window(points=points)
    assert len(found.steps) <= points
    assert max(found.high) == max(values)
    assert min(found.low) == min(values)
    assert sorted(found.steps) == list(found.steps)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(series_module, "CAPACITY", 256)
    monkeypatch.setattr(series_module, "_SETTLE_AT", 16)
    generator = random.Random(1)
    values = [generator.gauss(0, 1) for _ in range(20_000)]
    values[777], values[19_999] = 50.0, -50.0
    found = filled(values, 33)
    assert found.count == 20_000
    assert found._table.shape[1] <= 256
    window = found.window(points=100)
    assert max(window.high) == 50.0
    assert min(window.low) == -50.0
    assert math.isclose(sum(window.mean) / len(window.mean), sum(values) / 20_000, abs_tol=0.05)


@pytest.mark.slow
def test_a_million_points_are_quick():
    values = array("d", torch.randn(1_000_000, dtype=torch.float64).tolist())
    found = filled(values, 5000)
    assert found.count == 1_000_000
    window = found.window(points=1500)
    assert max(window.high) == max(values)
    near = found.window(500_000, 501_000, points=1500)
    assert near.per <= 16


def test_what_is_not_finite_is_a_hole():
    window = filled([1.0, math.nan, math.inf, 4.0]).window()
    assert [math.isnan(each) for each in window.mean] == [False, True, True, False]
    window = filled([1.0, math.nan, math.inf, 4.0]).window(points=1)
    assert (window.low, window.high, window.mean) == ((1.0,), (4.0,), (2.5,))


def test_steps_in_any_order():
    found = Series()
    for step in (3, 1, 2):
        found.extend(*(array("d", [step]) for _ in range(3)))
    assert found.window().steps == (1.0, 2.0, 3.0)


def test_a_stretch_has_one_neighbour_on_each_side():
    window = filled([*range(10)]).window(3, 5)
    assert window.steps == (2.0, 3.0, 4.0, 5.0, 6.0)


def test_the_points_from_a_step_on_are_forgotten():
    found = filled([*range(10)])
    assert found.truncate(6) == 4
    assert found.window().steps == tuple(map(float, range(6)))
    assert found.count == 6


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_what_is_sent_has_every_extreme_and_the_newest_point(values):
    steps = array("d", range(len(values)))
    rows = Rows(
        group="metrics", names=("a",), steps=steps, times=steps, columns=(array("d", values),)
    )
    sent = points_payload(rows, [0])
    assert len(sent["steps"]) <= 6
    assert sent["count"] == len(values)
    assert max(sent.get("high", sent["mean"])[0]) == max(values)
    assert min(sent.get("low", sent["mean"])[0]) == min(values)
    assert sent["steps"][-1] == len(values) - 1
    assert sent["mean"][0][-1] == values[-1]
