"""The committed result of `benchmarks/world.py` is whole, and meets its bars."""

import json
import re
from collections import Counter

import pytest

from benchmarks.world import RESULT
from benchmarks.world_mutation import table
from benchmarks.world_mutation.families import FAMILIES
from benchmarks.world_mutation.trial import NOT_APPLIED, RAISES, SILENT, STATUSES

pytestmark = pytest.mark.torch
DIFFERING = (SILENT, RAISES, NOT_APPLIED)


@pytest.fixture(scope="module")
def result():
    return json.loads(RESULT.read_text(encoding="utf-8"))


def test_result_names_its_commit_date_and_versions(result):
    measured = result["measured"]
    assert re.fullmatch(r"[0-9a-f]{7,40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert {"torch", "transformers", "timm", "torchvision"} <= measured["versions"].keys()
    assert all(re.fullmatch(r"[0-9a-f]{7,40}", each["commit"]) for each in result["families"])


def test_result_has_every_family_without_an_error(result):
    assert [each["family"] for each in result["families"]] == [each.name for each in FAMILIES]
    assert result["failed"] == {}
    assert all(each["classes"].get("graph") for each in result["families"])


def test_result_lists_each_change_that_differs(result):
    total = Counter()
    for family in result["families"]:
        listed = Counter(each["status"] for each in family["differing"])
        assert {
            each: family["counts"][each] for each in DIFFERING if family["counts"][each]
        } == listed
        assert all(each["change"] and each["detail"] for each in family["differing"])
        total.update(family["counts"])
    assert {key: value for key, value in total.items() if value} == {
        key: value for key, value in result["total"].items() if value
    }


def test_result_meets_the_bars(result):
    total = result["total"]
    changes = sum(total[each] for each in STATUSES)
    assert changes >= 2000
    assert total[SILENT] == 0
    assert total[RAISES] <= 0.01 * changes
    assert total[NOT_APPLIED] <= 0.02 * changes


def test_class_that_is_no_graph_any_more_is_lost():
    known = [{"family": "bert", "classes": {"graph": ["A", "B"], "kept": ["C"]}}]
    results = [{"family": "bert", "classes": {"A": "graph", "B": "kept", "C": "kept"}}]
    assert table.lost_graphs(results, known) == ["bert: B"]
    assert table.lost_graphs([{"family": "bert", "error": "it does not run"}], known) == []
