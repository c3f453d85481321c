"""The committed results of library.py: the counts fit the rows, and no number is wrong."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.library_suite import comparison

RESULTS = sorted((Path(__file__).parents[2] / "benchmarks" / "results" / "library").glob("*.json"))


def test_results_of_three_libraries_are_kept():
    assert [file.stem for file in RESULTS] == ["timm", "torchvision", "transformers"]


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_result_has_no_wrong_number_and_its_counts_are_those_of_its_rows(file):
    found = json.loads(file.read_text("utf-8"))
    states = Counter(each["state"] for each in found["by_test"].values())
    assert {state: found[state] for state in comparison.STATES} == {
        state: states[state] for state in comparison.STATES
    }
    assert found["wrong"] == found["newly failing"] == 0
    assert found["same"] > 0
    assert found["measured"]["commit"]
    assert found["graphs"] + len(found["not graphs"]) == found["classes"]


def test_table_of_results_is_that_of_the_committed_ones():
    rows = [comparison.row(file.stem, json.loads(file.read_text("utf-8"))) for file in RESULTS]
    text = (RESULTS[0].parents[2] / "README.md").read_text("utf-8")
    assert "\n".join([*comparison.HEAD, *rows]) in text
