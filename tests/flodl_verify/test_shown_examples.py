"""Examples in the documents of a project make models that no signature tells, and call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides
from flodl_verify.sources.literals import Example
from flodl_verify.sources.shown_examples import shown_examples

pytestmark = pytest.mark.torch

MODELS = """
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self, dim, mults=(1,)):
        super().__init__()
        self.channels, self.mults = 3, mults
        self.conv = nn.Conv2d(3, dim, 3, padding=1)
        self.out = nn.Conv2d(dim, 3, 3, padding=1)

    def forward(self, x):
        return self.out(torch.relu(self.conv(x)))


class Around(nn.Module):
    def __init__(self, model, steps):
        super().__init__()
        assert model.channels == 3 and len(model.mults) == 2 and steps % 25 == 0
        self.model, self.steps = model, steps

    def forward(self, images):
        assert images.shape[1:] == (3, 10, 10), "only these"
        return self.model(images) / self.steps
"""
README = """# Around

```python
import torch
from models import Around, Inner

net = Inner(
    dim = 8,
    mults = (1, 2)
)
around = Around(net, steps = 50).eval()
images = torch.rand(2, 3, 10, 10) * 2
loss = around(images)
loss.backward()
```
"""


def examples(folder: Path, block: str) -> dict[str, list[Example]]:
    file = folder / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    (folder / "README.md").write_text(f"```python\n{block}\n```\n", encoding="utf-8")
    return shown_examples(file, (folder,), ("Inner", "Around"))


def test_example_holds_the_values_of_names(tmp_path):
    found = examples(
        tmp_path, "d = 4\nn = Inner(d)\na = Around(n, 2 * d)\nx = torch.ones(d)\ny = a(x, x + 1)"
    )
    model = "Around(Inner(4), 2 * 4)"
    inputs = "torch.ones(4), torch.ones(4) + 1"
    assert found["Around"] == [Example(model=model, inputs=inputs)]
    assert found["Inner"] == [Example(model="Inner(4)", inputs=None)]


@pytest.mark.parametrize(
    "block",
    [
        "n = Inner(width)",
        "n = Inner(",
        "n = Inner(load('a'))",
        "def f():\n    n = Inner(3)",
        "n = Other(3)",
    ],
)
def test_example_that_needs_other_names_is_none(tmp_path, block):
    assert examples(tmp_path, block) == {}


def test_name_that_is_assigned_again_is_no_model(tmp_path):
    found = examples(tmp_path, "n = Inner(3)\nn = len('a')\nn(1)")
    assert found == {}


def test_model_is_made_and_called_as_its_documents_show(tmp_path):
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Around",), budget_s=60.0)
    book.add_shown()
    assert book.missing == (), book.reasons
    (case, *_) = book.cases["Around"]
    assert "Around(Inner(dim=8, mults=(1, 2)), steps=50).eval()" in case.origin
