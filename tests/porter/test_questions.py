"""Questions that a forward asks of values: chains of comparisons, identity, variables that functions set."""

import textwrap

import pytest
import torch

from tests.porter.port_twins import Twins

pytestmark = pytest.mark.torch

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn


class Same(nn.Module):
    def forward(self, x):
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.same = Same()
        self.low, self.high = -1.0, 1.0
        self.register_buffer("limit", torch.tensor(0.5))
        self.seen = 0

    def middle(self, x):
        self.seen += 1
        return x.sum() * 0.1

    def same_of(self, x):
        return x

    def forward(self, x):
"""
CHAINS = {
    "test": "if -1 < self.middle(x) < 1:\n    x = self.a(x)\nreturn self.b(x), self.seen",
    "settings": "if self.low < x.sum() <= self.high:\n    x = self.a(x)\nreturn self.b(x)",
    "buffer": "if x.min() < self.limit < x.max():\n    x = self.a(x)\nreturn self.b(x)",
    "three pairs": "if -3 < self.middle(x) < self.middle(-x) < 3:\n    x = self.a(x)\nreturn x, self.seen",
    "sizes and values": "if 0 < x.size(0) < x.sum() * 9:\n    x = self.a(x)\nreturn self.b(x)",
    "not": "if not -1 < x.sum() < 1:\n    x = self.a(x)\nreturn self.b(x)",
    "and": "if x.size(0) > 1 and -1 < x.sum() < 1:\n    x = self.a(x)\nreturn self.b(x)",
    "conditional": "return self.a(x) if -1 < x.sum() < 1 else self.b(x)",
    "assert": "assert -1 < x.sum() < 1, 'too far'\nreturn self.a(x)",
    "while": "while 0.2 < x.abs().sum() < 50:\n    x = x * 0.5\nreturn self.a(x)",
    "comparison of a comparison": "if (x.sum() > 0) == (x.max() > 1):\n    x = self.a(x)\nreturn self.b(x)",
    "value": "inside = -1 < x.sum() < 1\nreturn self.a(x) * inside",
    "filter": "return sum([row for row in x.unbind() if -1 < row.sum() < 1], self.a(x))",
}  # fmt: skip
IDENTITY = {
    "layer": "y = self.same(x)\nreturn self.a(y) if y is x else self.b(y)",
    "helper": "y = self.same_of(x)\nreturn self.a(y) if y is x else self.b(y)",
    "expression": "return self.a(x) if self.same(x) is x else self.b(x)",
    "is not": "y = x.contiguous()\nif y is not x:\n    y = self.a(y)\nreturn self.b(y)",
    "contiguous": "y = x.t().contiguous()\nif y is not x:\n    y = self.a(y.t())\nreturn self.b(y)",
    "buffer": "limit = self.limit\nreturn self.a(x) if limit is self.limit else self.b(x)",
}
NONLOCAL = {
    "count": """
        count = 0

        def step(y):
            nonlocal count
            count += 1
            return self.a(y) * count

        return step(step(x)) + count
    """,
    "tensor": """
        last = None

        def step(y):
            nonlocal last
            last = y if last is None else last + y
            return self.a(last)

        y = step(x)
        return step(y), last
    """,
    "decided by a value": """
        scale = 1

        def step(y):
            nonlocal scale
            if y.sum() > 0:
                scale = scale * 2
            return self.a(y) * scale

        x = step(x)
        if scale > 1:
            x = step(x)
        return x * scale
    """,
    "two levels": """
        total = 0

        def outer(y):
            part = 0

            def inner(z):
                nonlocal total, part
                total = total + z.sum()
                part += 1
                return z * part

            return inner(inner(y)) * part

        y = outer(x)
        return self.a(y) + total
    """,
    "in a loop": """
        h = x

        def step(layer):
            nonlocal h
            h = layer(h)

        for layer in (self.a, self.b):
            step(layer)
        return h
    """,
}
# Of values that are computed, of which the port cannot know what they are.
COMPUTED = {
    "items of a value": "return sum([row for row in x if row.sum() > 0 and row[0] > -9], self.a(x))",
    "nested function": "def ok(v):\n    return v > 0\n\n\nif ok(x.sum()):\n    x = self.a(x)\nreturn x",
    "index of a list": "return [self.a, self.b][x.argmax(1)[0] % 2](x)",
    "range": "for _ in range(x.argmax(1)[0]):\n    x = self.a(x)\nreturn x",
    "size": "n = x.argmax(1).max() + 1\nreturn torch.zeros(n, 3), torch.ones(n, x.size(0)), self.a(x)",
    "truth of a weight": "if self.limit:\n    x = self.a(x)\nreturn x",
    "truth of a tuple": "rows = x[x.sum(1) > 0].unbind()\nif not rows:\n    return x\nreturn self.a(rows[0])",
    "key of an order": "return max(x.unbind(), key=lambda row: row.sum().item())",
    "text": "return self.a(x), f'{x.sum()}', str(tuple(x.shape)), f'{[x.size(0)]}'",
    "key of a dict": "return {tuple(x.shape): self.a(x), x.size(0): 1}",
    "error": "if x.sum() > 0:\n    raise ValueError(f'{int(x.sum())} {tuple(x.shape)}', x.size())\nreturn x",
    "error with a value": "if x.sum() > 0:\n    raise KeyError(x.size(0), f'{x}')\nreturn x",
    "assertion": "assert x.sum() > 0, f'{x.sum()} {list(x.shape)}'\nreturn x",
}  # fmt: skip
CASES = {
    f"{kind} {name}": textwrap.dedent(body).strip()
    for kind, group in (
        ("chain", CHAINS),
        ("identity", IDENTITY),
        ("nonlocal", NONLOCAL),
        ("computed", COMPUTED),
    )
    for name, body in group.items()
}


def text_with(body):
    return HEAD.lstrip() + textwrap.indent(body, " " * 8) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_port_of_a_question_takes_the_way_of_the_original_in_every_call(porter, tmp_path, name):
    twins = Twins(porter, tmp_path, text_with(CASES[name]))
    assert "class Net(FlowModule)" in twins.text
    torch.manual_seed(2)
    for scale in (0.1, 1.0, 9.0, -0.1, -4.0, 0.1):
        for rows in (4, 3):
            twins.call(torch.randn(rows, 4) * scale + scale)
    twins.train(False)
    twins.call(torch.randn(4, 4))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("chain test", "if call(bool, -1 < (value := self.middle(x))) and call(bool, value < 1):"),
        ("chain value", "inside = call(lambda x: -1 < x.sum() < 1, x)"),
        ("chain not", "if not ((-1 < (value := x.sum())).through(bool) and call(bool, value < 1)):"),
        ("identity layer", "if y.through(lambda a, b: a is b, x) else"),
        ("nonlocal in a loop", "nonlocal h"),
    ],
)  # fmt: skip
def test_port_of_a_question_writes_it_as_a_step(porter, name, written):
    assert written in porter.text(text_with(CASES[name]))


def test_port_keeps_what_fills_a_container_as_values_decide(porter):
    text = text_with("rows = [x]\nfill(x, rows)\nreturn sum(rows)")
    filling = "def fill(x, rows):\n    if x.sum() > 0:\n        rows.append(x)\n\n\nclass Same"
    reasons = porter.reasons(text.replace("class Same", filling))
    assert [each.code for each in reasons] == ["FDL309"]
    rows = "rows = [x, -x]\nrows.sort(key=lambda row: row.sum().item())\nreturn rows"
    assert [each.code for each in porter.reasons(text_with(rows))] == ["FDL303"]


def test_port_keeps_a_loop_over_layers_and_the_hooks_of_their_list(porter, tmp_path):
    body = "for layer in self.layers:\n    x = layer(x)\nreturn x"
    text = text_with(body).replace(
        "        self.seen = 0\n",
        "        self.seen = 0\n        self.layers = nn.Sequential(self.a, self.b)\n",
    )
    twins = Twins(porter, tmp_path, text)
    assert "for layer in self.layers:\n            x = x.through(layer)\n" in twins.text
    twins.each(lambda net: net.layers.register_forward_hook(lambda *_: 1 / 0))
    twins.repeat()
