"""Schedules at the reference values of the framework they come from, and as drivers of optimizers."""

import io
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flodl.checkpoint.state import load_state, save_state
from flodl.nn.optimizers import SGD
from flodl.nn.schedulers import (
    CosineScheduler,
    CyclicLR,
    ExponentialLR,
    LinearScheduler,
    MultiStepLR,
    OneCycleLR,
    PlateauScheduler,
    StepDecay,
    WarmupScheduler,
)

pytestmark = pytest.mark.torch

COSINE = CosineScheduler(1e-3, 1e-6, 100)
REFERENCE = [
    (COSINE, {0: 0.001, 25: 0.0008537, 50: 0.0005005, 75: 0.0001473, 100: 1e-6, 150: 1e-6}),
    (
        OneCycleLR(0.01, 1000),
        {0: 0.0004, 150: 0.0052, 299: 0.009968, 300: 0.01, 650: 0.0052, 1000: 0.0004},
    ),
    (CyclicLR(1e-4, 1e-2, 500), {0: 1e-4, 250: 0.00505, 500: 0.01, 750: 0.00505, 999: 0.0001198}),
    (
        WarmupScheduler(COSINE, 0.001, 10),
        {0: 0.0001, 4: 0.0005, 9: 0.001, 10: 0.001, 60: 0.0005005},
    ),
    (StepDecay(0.1, 10, 0.1), {0: 0.1, 9: 0.1, 10: 0.01, 25: 0.001}),
    (ExponentialLR(0.1, 0.9), {0: 0.1, 1: 0.09, 2: 0.081}),
    (MultiStepLR(0.1, [80, 30], 0.1), {0: 0.1, 29: 0.1, 30: 0.01, 79: 0.01, 80: 0.001}),
    (LinearScheduler(1.0, 0.0, 4), {0: 1.0, 1: 0.75, 4: 0.0, 9: 0.0}),
    (CyclicLR(0.0, 1.0, 2, 8), {0: 0.0, 1: 0.5, 2: 1.0, 6: 0.5, 10: 0.0}),
]


@pytest.mark.parametrize(("schedule", "values"), REFERENCE, ids=[str(s) for s, _ in REFERENCE])
def test_reference_values(schedule, values):
    for step, expected in values.items():
        assert math.isclose(schedule.lr(step), expected, rel_tol=2e-4, abs_tol=1e-12), step
        assert schedule(step) == schedule.lr(step)


def test_plateau_reduces_at_the_fourth_and_seventh_equal_value():
    plateau = PlateauScheduler(0.001, 3, 0.1)
    rates = [plateau.observe(1.0) for _ in range(7)]
    expected = [1e-3, 1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-5]
    torch.testing.assert_close(rates, expected)


def test_plateau_waits_again_after_an_improvement_and_stops_at_the_minimum():
    plateau = PlateauScheduler(1.0, 2, 0.1, 0.05)
    assert [plateau.observe(x) for x in (1.0, 2.0, 0.5, 2.0)] == [1.0] * 4
    assert plateau.observe(2.0) == pytest.approx(0.1)
    assert [plateau.observe(2.0) for _ in range(4)][-1] == 0.05


def test_plateau_of_a_metric_that_should_rise():
    plateau = PlateauScheduler(1.0, 1, 0.5, mode="max")
    assert [plateau.observe(x) for x in (0.1, 0.2, 0.3)] == [1.0] * 3
    assert plateau.observe(0.2) == 0.5


def test_plateau_continues_from_its_state():
    first, second = PlateauScheduler(1.0, 3), PlateauScheduler(9.0, 3)
    for value in (1.0, 2.0, 3.0):
        first.observe(value)
    second.load_state_dict(first.state_dict())
    assert [first.observe(2.0), first.lr()] == [second.observe(2.0), second.lr()]


REFUSED = {
    "StepDecay(1, 0)": lambda: StepDecay(1, 0),
    "CosineScheduler(1, 0, 0)": lambda: CosineScheduler(1, 0, 0),
    "ExponentialLR(1, 0)": lambda: ExponentialLR(1, 0),
    "MultiStepLR(1, [-1])": lambda: MultiStepLR(1, [-1]),
    "OneCycleLR(1, 0)": lambda: OneCycleLR(1, 0),
    "OneCycleLR(1, 10, 1.5)": lambda: OneCycleLR(1, 10, 1.5),
    "CyclicLR(0, 1, 0)": lambda: CyclicLR(0, 1, 0),
    "CyclicLR(0, 1, 1, 0)": lambda: CyclicLR(0, 1, 1, 0),
    "LinearScheduler(1, 0, 0)": lambda: LinearScheduler(1, 0, 0),
    "WarmupScheduler(COSINE, 1, -1)": lambda: WarmupScheduler(COSINE, 1, -1),
    "WarmupScheduler.with_ratio(COSINE, 1, 100, 1.5)": lambda: WarmupScheduler.with_ratio(
        COSINE, 1, 100, 1.5
    ),
    "PlateauScheduler(1, 0)": lambda: PlateauScheduler(1, 0),
    "PlateauScheduler(1, 1, 1.0)": lambda: PlateauScheduler(1, 1, 1.0),
    "PlateauScheduler(1, 1, mode='down')": lambda: PlateauScheduler(1, 1, mode="down"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_arguments_without_meaning_are_refused(text):
    with pytest.raises(ValueError, match=r"needs|must|between|mode"):
        REFUSED[text]()


def test_warmup_as_a_share():
    assert WarmupScheduler.with_ratio(COSINE, 1e-3, 200, 0.05).warmup_steps == 10


@given(
    base=st.floats(1e-6, 1.0),
    total=st.integers(1, 1000),
    step=st.integers(0, 2000),
)
def test_rates_stay_between_their_ends(base, total, step):
    slack = base * 1e-12
    assert -slack <= CosineScheduler(base, 0.0, total).lr(step) <= base + slack
    assert base / 25 - slack <= OneCycleLR(base, total).lr(step) <= base + slack
    assert -slack <= CyclicLR(0.0, base, total).lr(step) <= base + slack


def optimizer(*rates):
    return SGD([{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in rates])


def test_as_torch_sets_the_same_rates_group_by_group():
    driven = optimizer(1e-3, 1e-4)
    adapter = COSINE.as_torch(driven)
    for step in range(120):
        assert driven.lr(0) == COSINE.lr(step)
        assert driven.lr(1) == pytest.approx(COSINE.lr(step) / 10)
        driven.step()
        adapter.step()


def test_the_adapter_saves_its_position_and_nothing_else():
    driven = optimizer(1e-3)
    adapter = COSINE.as_torch(driven)
    for _ in range(7):
        driven.step()
        adapter.step()
    file = io.BytesIO()
    save_state(file, adapter.state_dict(), of="schedule")
    fresh = optimizer(1e-3)
    again = COSINE.as_torch(fresh)
    again.load_state_dict(load_state(io.BytesIO(file.getvalue()), of="schedule"))
    fresh.step()
    again.step()
    assert fresh.lr() == COSINE.lr(8)


def test_apply_keeps_the_ratio_of_groups():
    driven = optimizer(0.1, 0.01)
    assert StepDecay(0.1, 10, 0.5).apply(driven, 10) == 0.05
    assert (driven.lr(0), driven.lr(1)) == (0.05, pytest.approx(0.005))


def test_plateau_as_torch_drives_an_optimizer():
    driven = optimizer(0.1, 0.2)
    adapter = PlateauScheduler(0.1, 1, 0.5).as_torch(driven)
    adapter.step(1.0)
    adapter.step(1.0)
    assert (driven.lr(0), driven.lr(1)) == (0.05, pytest.approx(0.1))
    assert adapter.state_dict()["lr"] == 0.05
