"""`llms.txt`: links that lead to what they name, and every method that the documents chain."""

import ast
import re
from pathlib import Path

from fdl_cli.apiref.llms import PAGES, llms_text
from fdl_cli.apiref.storage import build_here

ROOT = Path(__file__).parents[2]
INDEX = build_here()


def test_llms_text_links_each_public_name_to_the_line_that_makes_it():
    text = llms_text(INDEX)
    links = dict(re.findall(rf"\[([^\]]+)\]\({re.escape(PAGES)}/([^)]+)\)", text))
    for entry in INDEX.public:
        path, _, line = links[entry.short_name].partition("#L")
        source = (ROOT / path).read_text("utf-8").splitlines()
        if entry.kind in ("class", "function"):
            # A decorated thing begins at `class` or `def`, which has its own name.
            assert re.search(r"\b(class|def) ", source[int(line) - 1]), entry.name
    assert len(INDEX.public) > 250


def test_llms_text_links_the_guides():
    paths = re.findall(rf"\({re.escape(PAGES)}/(docs/[^)]+)\)", llms_text(INDEX))
    assert len(paths) >= 6
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def chained(tree):
    """Yield the methods that a program calls on what `Trainer.builder(...)` returns, up to `join`."""
    for node in ast.walk(tree):
        names, inner = [], node
        while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            names.append(inner.func.attr)
            inner = inner.func.value
        if names and names[-1] == "builder" and isinstance(inner, ast.Name):
            yield from names[:-1]


def test_reference_knows_each_method_that_the_documents_chain_on_a_trainer():
    known = {
        entry.name.rpartition(".")[2]
        for entry in INDEX.entries
        if entry.owner.rpartition(".")[2] in ("TrainerBuilder", "RunHandle")
    }
    used = set()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        blocks = re.findall(
            r"^```python\w*\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        for block in blocks:
            used |= set(chained(ast.parse(block)))
    assert len(used) > 10
    assert used - known == set()


def test_layers_are_in_a_group_of_layers():
    groups = {entry.short_name: entry.category for entry in INDEX.public}
    layers = ("Linear", "Conv2d", "GRU", "BatchNorm", "ReLU", "Dropout", "MultiheadAttention")
    assert {groups[name] for name in layers} == {"Layers"}
    assert groups["Tensor"] == groups["TensorOptions"] == "Tensors and devices"
    assert groups["Parameter"] == "Parameters"
