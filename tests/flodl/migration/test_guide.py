"""Every row and every pair of programs of the migration guide computes the same on both sides."""

import ast
import builtins
import inspect
import re

import pytest
import torch

from flodl import FlowBuilder, Graph, Monitor
from tests.flodl.migration import guide

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:.*scheduler.step:UserWarning"),
]

ROWS = guide.rows()
PROGRAMS = guide.programs()
UNCHANGED = guide.unchanged()


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """The page writes into the current folder."""
    monkeypatch.chdir(tmp_path)


def assert_same(left, right):
    """Compare nests of tensors and plain values number by number, dtypes included."""
    if isinstance(left, torch.Tensor):
        assert isinstance(right, torch.Tensor)
        torch.testing.assert_close(right, left, rtol=1e-6, atol=1e-7, equal_nan=True)
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for one, two in zip(left, right, strict=True):
            assert_same(one, two)
    elif isinstance(left, float):
        assert right == pytest.approx(left, rel=1e-6, abs=1e-9)
    else:
        assert left == right


def test_the_guide_is_complete_as_read():
    assert len(ROWS) > 240
    assert len(PROGRAMS) >= 12
    assert len(ROWS) == sum(line.startswith("| `") for line in guide.text().splitlines())
    assert len(PROGRAMS) == guide.text().count("```python flodl")


@pytest.mark.parametrize("row", ROWS, ids=[each.key for each in ROWS])
def test_rows(row):
    sides = []
    for side, code in (("torch", row.torch), ("flodl", row.flodl)):
        sides.append(guide.value_of(code, guide.namespace(side)))
    assert_same(*sides)


def test_rows_are_plain_statements():
    """No walrus and no tuple of calls with an index: a cell has one line for each statement."""
    tricks = [
        row
        for row in ROWS
        for node in ast.walk(ast.parse(f"{row.torch}\n{row.flodl}"))
        if isinstance(node, ast.NamedExpr)
        or (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Tuple))
    ]
    assert tricks == []


@pytest.mark.parametrize("code", UNCHANGED)
def test_unchanged_text_computes_the_same_on_both_sides(code):
    sides = [eval(code, guide.namespace(side)) for side in ("torch", "flodl")]
    assert_same(*sides)


def test_rows_differ_in_their_two_texts():
    assert [row for row in ROWS if row.torch == row.flodl] == []
    assert len(UNCHANGED) >= 25


@pytest.mark.parametrize("pair", PROGRAMS, ids=[each.section for each in PROGRAMS])
def test_programs(pair):
    results = []
    for side, code in (("torch", pair.torch), ("flodl", pair.flodl)):
        names = guide.namespace(side)
        exec(code, names)
        results.append(names["result"])
    assert_same(*results)


def test_the_left_side_needs_no_flodl():
    ours = set(guide.flodl_names()) - set(vars(builtins))
    local = set(guide.namespace("torch"))
    for pair in (*ROWS, *PROGRAMS):
        tree = ast.parse(pair.torch)
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not (used - own - local) & ours, pair


def public(kind):
    return {
        name: each for name, each in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"
    }


def test_guide_has_each_word_of_the_builder_and_each_method_that_takes_a_path():
    written = "\n".join(guide.right_side())
    words = set(public(FlowBuilder)) | {
        "for_n",
        "while_cond",
        "until_cond",
        "each",
        "over",
        "slices",
    }
    words |= {"along", "batched", "from_", "new"}
    words |= {n for n, each in public(Graph).items() if n.endswith("_at") or path_first(each)}
    assert len(words) > 35
    assert [word for word in sorted(words) if not re.search(rf"\.{word}\(", written)] == []


def path_first(method):
    """Return True if the first argument of a method is the path of a part, not that of a file."""
    parameters = list(inspect.signature(method).parameters.values())[1:2]
    return [(each.name, each.annotation) for each in parameters] == [("path", "str")]


def test_table_of_the_monitor_has_each_method():
    table = guide.text().partition("| TensorBoard | flodl |")[2].partition("\n\n")[0]
    assert [name for name in public(Monitor) if f"`monitor.{name}" not in table] == []


def test_the_comparison_notices_a_difference():
    with pytest.raises(AssertionError):
        assert_same(torch.ones(2), torch.tensor([1.0, 1.1]))
    with pytest.raises(AssertionError):
        assert_same([1.0], [1.01])
    with pytest.raises(AssertionError):
        assert_same(torch.ones(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(AssertionError):
        assert_same((1,), (1, 2))
