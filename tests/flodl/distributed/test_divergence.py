"""The convergence guard on scripted drifts and losses."""

import json
import math

import pytest

from flodl.distributed import ConvergenceGuard


def verdicts(drifts, losses=None, guard=None):
    guard = guard or ConvergenceGuard(0.05)
    losses = losses or [None] * len(drifts)
    return [guard.observe(d, x).name for d, x in zip(drifts, losses, strict=True)]


def test_steady_drift_is_stable_whatever_its_height_below_twice_the_threshold():
    assert set(verdicts([0.09] * 30)) == {"STABLE"}


def test_three_rises_above_the_threshold_hold_growth():
    assert verdicts([0.02, 0.03, 0.04, 0.06, 0.05]) == ["STABLE"] * 3 + ["HOLD", "STABLE"]


def test_three_rises_below_the_threshold_are_stable():
    assert set(verdicts([0.01, 0.02, 0.03, 0.04, 0.05])) == {"STABLE"}


def test_two_rises_above_the_threshold_are_stable():
    assert set(verdicts([0.06, 0.07, 0.08, 0.07, 0.08, 0.09])) == {"STABLE"}


def test_drift_above_twice_the_threshold_in_three_windows_halves_and_then_holds_ten():
    found = verdicts([0.11] * 3 + [0.01] * 12)
    assert found == ["STABLE", "STABLE", "HALVE"] + ["HOLD"] * 10 + ["STABLE"] * 2


def test_interrupted_drift_does_not_halve():
    assert "HALVE" not in verdicts([0.11, 0.11, 0.01] * 5)


def test_lasting_drift_halves_again_every_three_windows():
    found = verdicts([0.2] * 9)
    assert [index for index, verdict in enumerate(found) if verdict == "HALVE"] == [2, 5, 8]


def test_loss_far_above_its_mean_in_three_windows_halves():
    losses = [1.0, 0.98, 1.02, 0.99, 1.01, 1.0, 1.3, 1.3, 1.3]
    assert verdicts([0.01] * 9, losses) == ["STABLE"] * 8 + ["HALVE"]


def test_new_level_of_the_loss_is_accepted_after_it_halved():
    losses = [1.0, 0.98, 1.02, 0.99, 1.01] + [1.3] * 20
    assert verdicts([0.01] * 25, losses).count("HALVE") == 1


def test_falling_noisy_loss_is_stable():
    losses = [2.0 * 0.97**step + 0.05 * math.sin(7 * step) for step in range(100)]
    assert set(verdicts([0.01] * 100, losses)) == {"STABLE"}


def test_loss_is_compared_with_recent_losses_alone():
    losses = [2.0 + 0.01 * (step % 2) for step in range(30)]
    losses += [1.0 + 0.01 * (step % 2) for step in range(20)]
    assert verdicts([0.01] * 53, losses + [1.5] * 3)[-1] == "HALVE"


def test_losses_without_any_deviation_allow_a_small_one():
    assert set(verdicts([0.01] * 9, [1.0] * 6 + [1.002] * 3)) == {"STABLE"}
    assert verdicts([0.01] * 9, [1.0] * 6 + [1.004] * 3)[-1] == "HALVE"


def test_few_losses_are_not_judged():
    assert set(verdicts([0.01] * 4, [1.0, 1.0, 9.0, 9.0])) == {"STABLE"}


@pytest.mark.parametrize(("drift", "loss"), [(math.nan, None), (math.inf, 1.0), (0.0, math.inf)])
def test_number_that_is_not_finite_is_suspect(drift, loss):
    assert verdicts([drift] * 3, [loss] * 3)[-1] == "HALVE"


def test_stored_guard_continues():
    drifts = [0.11, 0.02, 0.11, 0.11, 0.11, 0.01, 0.02, 0.03, 0.06] + [0.01] * 9
    losses = [1.0 + 0.01 * (step % 3) for step in range(len(drifts))]
    whole = verdicts(drifts, losses)
    guard, found = ConvergenceGuard(), []
    for drift, loss in zip(drifts, losses, strict=True):
        found += verdicts([drift], [loss], guard)
        restored = ConvergenceGuard()
        restored.load_state_dict(json.loads(json.dumps(guard.state_dict())))
        guard = restored
    assert found == whole
    assert {"HALVE", "HOLD", "STABLE"} == set(whole)


def test_impossible_threshold_and_torn_state_are_refused():
    with pytest.raises(ValueError, match=r"the threshold is 0\.0"):
        ConvergenceGuard(0.0)
    with pytest.raises(ValueError, match="lacks drifts, held, losses"):
        ConvergenceGuard().load_state_dict({"suspect": 1})
