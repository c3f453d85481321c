"""Every promised feature has a test, and a line in the documentation."""

import ast
import posixpath
import re
from pathlib import Path

import pytest

from tests.flodl.migration import guide
from tests.flodl.migration.test_gradients import OPERATIONS

pytestmark = pytest.mark.torch

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parents[1] / "docs" / "features.md"
ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "features.tsv").read_text("utf-8").splitlines()
]


def functions(path):
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_every_row_has_a_test_that_exists():
    known = {}
    for section, feature, place in ROWS:
        if place.startswith("guide:"):
            continue
        path, _, name = place.partition("::")
        known.setdefault(path, functions(path))
        assert name in known[path], (section, feature, place)


def test_rows_of_the_guide_are_in_the_guide():
    text = "\n".join(line for line in guide.text().splitlines() if line.startswith("| `"))
    prose = guide.text()
    for _, feature, place in ROWS:
        if place.startswith("guide:"):
            word = place.removeprefix("guide:")
            assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) or (
                word == "pin_memory" and word in prose
            ), feature


def test_every_differentiable_operation_is_checked():
    names = {
        match[1] for _, feature, _ in ROWS if (match := re.match(r"autograd: (\w+) ", feature))
    }
    assert names == set(OPERATIONS)


def test_no_section_was_forgotten():
    assert len(ROWS) == 686
    assert len({section for section, _, _ in ROWS}) == 36


def _from_root(place):
    return posixpath.normpath(f"tests/flodl/{place}")


def page():
    lines = [
        "# Feature by feature",
        "",
        "Generated from `tests/flodl/migration/features.tsv`: every feature with the test that holds it.",
        "Rows marked *guide* are rows of [migration.md](migration.md), which the test suite runs.",
    ]
    last = ""
    for section, feature, place in ROWS:
        if section != last:
            lines += ["", f"## {section}", "", "| Feature | Test |", "|---|---|"]
            last = section
        shown = "*guide*" if place.startswith("guide:") else f"`{_from_root(place)}`"
        lines.append(f"| {feature} | {shown} |")
    return "\n".join(lines) + "\n"


def test_the_page_lists_every_row(golden):
    golden(PAGE, page())
