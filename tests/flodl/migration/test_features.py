"""The list of features: each row has a state, and a test that shows it or a reason why it does not work.

`features.tsv` has one row for each feature that the project promises, and is complete in itself:

    section <tab> feature <tab> state <tab> test <tab> note
    Layers  `Linear::no_bias`   other spelling  guide:bias=False    `Linear(4, 8, bias=False)`

`test` is a test below `tests/flodl` (`../cli/...` leaves the folder), or `guide:WORD` for the rows and
programs of `docs/reference/pytorch-map.md` whose right side has the word. `test_feature_removals.py` takes
features away and runs their tests.
"""

import ast
import functools
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import nn

import flodl
from tests.flodl.migration import guide
from tests.flodl.migration.test_gradients import OPERATIONS

pytestmark = pytest.mark.torch

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parents[1] / "docs" / "project" / "features.md"
WORKS, SPELLED, MISSING = "works", "other spelling", "not yet"
HEAD = "section\tfeature\tstate\ttest\tnote"


@dataclass(frozen=True)
class Row:
    """One promised feature."""

    section: str
    feature: str
    state: str
    test: str
    note: str

    @property
    def word(self):
        return self.test.removeprefix("guide:") if self.test.startswith("guide:") else ""

    @property
    def place(self):
        """Return the file from the root of the project, and the function."""
        path, _, function = self.test.partition("::")
        return posixpath.normpath(f"tests/flodl/{path}"), function


def rows():
    head, *lines = (Path(__file__).parent / "features.tsv").read_text("utf-8").splitlines()
    assert head == HEAD
    for number, line in enumerate(lines, 2):
        assert line.count("\t") == 4, f"features.tsv:{number}: five fields are needed: {line}"
    return [Row(*line.split("\t")) for line in lines]


ROWS = rows()


@functools.cache
def functions(path):
    """Return the decorators of each test of a file, as text."""
    tree = ast.parse((TESTS.parents[1] / path).read_text(encoding="utf-8"))
    return {
        node.name: " ".join(ast.unparse(each) for each in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_row_has_one_state():
    wrong = [row for row in ROWS if row.state not in (WORKS, SPELLED, MISSING)]
    assert wrong == []
    keys = [(row.section, row.feature) for row in ROWS]
    assert len(set(keys)) == len(keys)


def test_row_that_works_has_a_test_and_any_other_a_note():
    assert [row for row in ROWS if row.state != MISSING and not row.test] == []
    assert [row for row in ROWS if row.state != WORKS and not row.note] == []


def test_every_row_has_a_test_that_exists():
    named = [row for row in ROWS if row.test and not row.word]
    assert [row for row in named if row.place[1] not in functions(row.place[0])] == []


def test_row_whose_test_needs_a_gpu_says_so():
    for row in ROWS:
        if row.test and not row.word and "mark.gpu" in functions(row.place[0])[row.place[1]]:
            assert "needs a GPU" in row.note, row.feature


def test_rows_of_the_guide_are_on_its_right_side():
    written = "\n".join(guide.right_side())
    for row in ROWS:
        if row.word:
            assert re.search(rf"(?<!\w){re.escape(row.word)}(?!\w)", written), row.feature


def test_missing_features_are_not_public_names():
    names = {
        (row.feature, name)
        for row in ROWS
        if row.state == MISSING
        for name in re.findall(r"`(?:\w+\.)?(\w+)", row.feature)
    }
    public = {*flodl.__all__, *set(dir(flodl.Graph)) - set(dir(nn.Module))}
    built = sorted(pair for pair in names if pair[1] in public)
    assert built == [], "built: set the state to `works`, and name the test"


def test_every_differentiable_operation_is_checked():
    names = {match[1] for row in ROWS if (match := re.match(r"autograd: (\w+) ", row.feature))}
    assert names == set(OPERATIONS)


def test_no_section_was_forgotten():
    assert len({row.section for row in ROWS}) == 41
    assert len(ROWS) >= 800


def shown(row):
    """Return the last cell: the test, and what else there is to say."""
    test = "*guide*" if row.word else f"`{'::'.join(row.place)}`" if row.test else ""
    return ". ".join(part for part in (row.note, test) if part).replace("|", "\\|")


def page():
    counts = {
        state: sum(row.state == state for row in ROWS) for state in (WORKS, SPELLED, MISSING)
    }
    lines = [
        "# Feature by feature",
        "",
        f"Generated from `tests/flodl/migration/features.tsv`: {len(ROWS)} features.",
        f"{counts[WORKS]} work as written, {counts[SPELLED]} have another spelling, which their row",
        f"names, and {counts[MISSING]} do not work yet. Each row names the test that shows it. *guide* means",
        "rows and programs of [pytorch-map.md](../reference/pytorch-map.md), which the test suite runs.",
    ]
    last = ""
    for row in ROWS:
        if row.section != last:
            lines += [
                "",
                f"## {row.section}",
                "",
                "| Feature | State | Shown by |",
                "|---|---|---|",
            ]
            last = row.section
        feature = row.feature.replace("|", "\\|")
        lines.append(f"| {feature} | {row.state} | {shown(row)} |")
    return "\n".join(lines) + "\n"


def test_the_page_lists_every_row(golden):
    golden(PAGE, page())
