"""The list of benchmarks names every benchmark, and every benchmark says what it measures."""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_every_benchmark_is_listed():
    listed = re.findall(r"python benchmarks/(\w+\.py)", (FOLDER / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(path.name for path in FOLDER.glob("*.py"))


def test_every_benchmark_says_what_it_measures():
    for path in FOLDER.glob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path.name
