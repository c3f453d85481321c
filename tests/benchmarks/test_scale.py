"""The emulator of unequal ranks says what the best division reaches, and the kept result is shown."""

import json
import re

import pytest

from benchmarks import scale

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]
BENCHMARKS = scale.ROOT / "benchmarks"


@pytest.fixture(scope="module")
def result():
    return json.loads((BENCHMARKS / "results" / "scale.json").read_text("utf-8"))


def test_result_names_its_commit_date_and_versions(result):
    measured = result["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert measured["versions"]["torch"]
    assert max(measured["load"]) < 2  # more makes sleeping ranks late


def test_result_has_rivals_that_wait_for_the_slowest(result):
    rows = [scale.Row(**row) for row in result["rows"]]
    assert [row.run for row in rows[:2]] == ["DDP", f"PostLocalSGD, period {scale.PERIOD}"]
    for rival in rows[:2]:
        assert abs(rival.share - scale.EQUAL_BATCHES) <= 0.04


def test_result_has_every_run_and_cadence_is_ahead_of_every_rival(result):
    rows = [scale.Row(**row) for row in result["rows"]]
    sync = [row for row in rows if row.run.startswith("Sync")]
    assert len(sync) == len(scale.UPDATES)
    assert all(row.share <= row.bar + 0.01 for row in sync)
    for policy in scale.BARS:
        found = {tuple(row.speeds): row for row in rows if row.run == policy.capitalize()}
        assert {speeds: row.bar for speeds, row in found.items()} == scale.BARS[policy]
        assert found[scale.SPEEDS].share > 1.5 * rows[0].share


def test_list_of_benchmarks_shows_the_result(result):
    rows = [scale.Row(**row) for row in result["rows"]]
    shown = "\n".join(scale.lines(rows, result["costs"]))
    assert shown in (BENCHMARKS / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_sync_row_on_emulated_ranks_stays_below_its_bar():
    row = scale.sync_row(4, 2)
    assert 0.1 < row.share < row.bar == pytest.approx(4 / 0.030 / 140)


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(scale.BARS))
def test_averaging_row_on_emulated_ranks_is_a_share(policy):
    row = scale.averaging_row(policy, (0.010, 0.025), 0.5)
    assert (row.run, row.bar) == (policy.capitalize(), scale.BARS[policy][row.speeds])
    assert 0.1 < row.share <= 1.01
