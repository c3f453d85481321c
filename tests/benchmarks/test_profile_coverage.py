"""The coverage of profiles is measured on every way of a flow, and the kept result reaches the bar."""

import json
import re

import pytest
import torch
from torch import nn

from benchmarks import profile_coverage

pytestmark = pytest.mark.torch
BENCHMARKS = profile_coverage.ROOT / "benchmarks"


@pytest.fixture(scope="module")
def result():
    return json.loads((BENCHMARKS / "results" / "profile_coverage.json").read_text("utf-8"))


def test_measure_on_every_way_gives_shares():
    for case in profile_coverage.ways():
        row = profile_coverage.measure(case, rounds=1)
        assert row.plain > 0, case.name
        assert min(row.entry, row.steps, row.flow) > 0, case.name
        assert row.flow == pytest.approx(row.steps + row.entry)


def test_ways_differ_and_equal_their_plain_twins():
    cases = {case.name: case for case in profile_coverage.ways()}
    for case in cases.values():
        case.flow.load_state_dict(case.plain.state_dict())
        with torch.no_grad():
            assert torch.equal(case.flow(case.x), case.plain(case.x)), case.name
    turns = {}
    for name in ("loop, few turns", "loop, many turns"):
        calls = []
        plain = cases[name].plain
        plain.lin.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        plain(cases[name].x)
        turns[name] = len(calls)
    assert 0 < turns["loop, few turns"] < turns["loop, many turns"]


def test_measure_of_a_plain_forward_counts_submodules_only():
    model = nn.Sequential(nn.Linear(4, 4))
    case = profile_coverage.Case(name="n", plain=model, flow=model, x=torch.ones(2, 4))
    row = profile_coverage.measure(case, rounds=1)
    assert (row.entry, row.steps) == (0, row.flow)


def test_result_names_its_commit_date_and_versions(result):
    measured = result["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert measured["python"]
    assert measured["versions"]["torch"]


def test_result_has_all_models_above_the_bar_as_the_list_shows(result):
    rows = [profile_coverage.Row(**row) for row in result["rows"]]
    ways = [case.name for case in profile_coverage.ways()]
    assert [row.model for row in rows] == [*profile_coverage.MODELS, *ways]
    assert result["bar"] == profile_coverage.BAR
    assert all(row.flow >= profile_coverage.BAR for row in rows)
    shown = "\n".join([*profile_coverage.HEAD, *map(profile_coverage.line, rows)])
    assert shown in (BENCHMARKS / "README.md").read_text("utf-8")
