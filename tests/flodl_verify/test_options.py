"""What code compares its names with is what an argument may be: texts, and numbers that are listed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sources.text_options import options_compared, texts_compared
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

TABLE = {"small": 1, "large": 2}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kind == 'lstm'", {"kind": ["lstm"]}),
        ("args.kind in (GRU, 'lstm')", {"kind": ["gru", "lstm"]}),
        ("depth in [18, 34]", {"depth": [18, 34]}),
        ("known = [18, 34]\nassert depth in known", {"depth": [18, 34]}),
        ("stride == 1", {}),
        ("flag in [True, False]", {}),
        ("{18: a, 34: b}[depth]", {"depth": [18, 34]}),
        ("TABLE[size]", {"size": ["small", "large"]}),
        ("OTHER[size]", {}),
        ("TABLE[0]", {}),
        ("match kind:\n    case 'a': pass\n    case 2: pass", {"kind": ["a", 2]}),
    ],
)
def test_what_is_compared(text, found) -> None:
    names = {"GRU": "gru", "TABLE": TABLE, "OTHER": {("a", 1): 2}}
    assert options_compared(ast.parse(text), names) == found
    texts = {name: [it for it in items if isinstance(it, str)] for name, items in found.items()}
    assert texts_compared(ast.parse(text), names) == {k: v for k, v in texts.items() if v}


MODELS = """
import torch
from torch import nn

WIDTHS = {"narrow": (4, 6), "wide": (8, 16)}

def layout(depth):
    depths = [18, 34]
    assert depth in depths, "one of the usual depths"
    return {"18": 1, "34": 2}[str(depth)]

class Deep(nn.Module):
    def __init__(self, num_inputs, depth):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(num_inputs, num_inputs) for _ in range(layout(depth))))

    def forward(self, x):
        return self.layers(x)

class Chosen(nn.Module):
    def __init__(self, model_name):
        super().__init__()
        first, second = WIDTHS[model_name]
        self.fc = nn.Linear(first, second)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.mark.parametrize("name", ["Deep", "Chosen"])
def test_arguments_are_found(tmp_path: Path, name) -> None:
    book = CaseFinder(opened(tmp_path, MODELS), (name,), budget_s=30.0)
    book.add_guesses()
    assert not book.missing, book.reasons
