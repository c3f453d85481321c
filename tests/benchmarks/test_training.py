"""The tables of the ten models: what the documents show is what the committed times say."""

import re
from pathlib import Path

import pytest

from benchmarks import training

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
TIMES = ROOT / "benchmarks" / "results" / "training-h200"


def test_report_of_the_gpu_is_the_table_in_the_documents(capsys):
    training.report(TIMES, "published")
    _, table = capsys.readouterr().out.strip().split("\n\n", 1)
    page = (ROOT / "docs" / "benchmarks" / "performance.md").read_text("utf-8")
    assert table in page
    mean = re.search(r"^eager: geometric mean ([\d.]+)", table, re.MULTILINE)[1]
    assert f"{mean} times as fast as plain eager steps" in (ROOT / "README.md").read_text("utf-8")


def test_report_without_results_prints_nothing(capsys, tmp_path):
    training.report(tmp_path, "published")
    assert capsys.readouterr().out == ""
