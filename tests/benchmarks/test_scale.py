"""The emulator of unequal ranks says what the best division reaches, and the kept result is shown."""

import json
import re

import pytest

from benchmarks import scale

pytestmark = pytest.mark.torch
BENCHMARKS = scale.ROOT / "benchmarks"


@pytest.fixture(scope="module")
def result():
    return json.loads((BENCHMARKS / "results" / "scale.json").read_text("utf-8"))


def test_result_names_its_commit_date_and_versions(result):
    measured = result["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert measured["versions"]["torch"]
    assert measured["load"] < measured["cpus"]  # more makes sleeping ranks late


def test_result_has_a_rival_that_waits_for_the_slowest(result):
    rows = [scale.Row(**row) for row in result["rows"]]
    ddp = rows[0]
    assert (ddp.run, [row.accumulate for row in rows[1:]]) == ("DDP", list(scale.UPDATES))
    assert abs(ddp.share - scale.DDP_SHARE) <= 0.03
    assert all(row.share <= row.predicted + 0.01 for row in rows)


def test_list_of_benchmarks_shows_the_result(result):
    rows = [scale.Row(**row) for row in result["rows"]]
    shown = "\n".join(scale.lines(rows, result["costs"]))
    assert shown in (BENCHMARKS / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_sync_row_on_emulated_ranks_stays_below_the_prediction():
    row = scale.sync_row(4, 2)
    assert 0.1 < row.share < row.predicted == pytest.approx(4 / 0.030 / 140)
