"""Arguments that were guessed as numbers and are used as something else: lists, layers, tables, texts."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.inputs.rules.constructor_guesses import guess_constructor_arguments
from flodl_verify.inputs.rules.misfit_arguments import fitting
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

MODELS = """
import torch
from torch import nn


class Vocabulary(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.fc = nn.Linear(width, len(vocab))

    def forward(self, x):
        return self.fc(x)


class Window(nn.Module):
    def __init__(self, wide, window):
        super().__init__()
        assert len(window) == 2
        self.fc = nn.Linear(wide, sum(window))

    def forward(self, x):
        return self.fc(x)


class Cell(nn.Module):
    def __init__(self, input_size, wide):
        super().__init__()
        self.height, self.width = input_size
        self.fc = nn.Linear(wide, self.height + self.width)

    def forward(self, x):
        return self.fc(x)


class Kernel(nn.Module):
    def __init__(self, kernel_size, wide):
        super().__init__()
        if not isinstance(kernel_size, tuple):
            raise ValueError("`kernel_size` must be tuple or list of tuples")
        self.fc = nn.Linear(wide, sum(kernel_size))

    def forward(self, x):
        return self.fc(x)


class Table(nn.Module):
    def __init__(self, wide, info):
        super().__init__()
        self.fc = nn.Linear(wide, info["node_size"])
        self.act = info["activation"]()
        self.rest = nn.ModuleList(nn.Linear(1, 1) for _ in range(info["layers"]))

    def forward(self, x):
        return self.act(self.fc(x))


class Positions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("pe", torch.randn(50, width))

    def forward(self, x):
        return x + self.pe[: x.shape[-2]]


class Steps(nn.Module):
    def __init__(self, width, positions):
        super().__init__()
        self.positions = positions
        self.fc = nn.Linear(width, width)

    def forward(self, t):
        return self.fc(self.positions.pe[t])


class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.most = 7
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)


class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.most = net.most

    def forward(self, x):
        return self.net(x[:, : self.most])


class Activated(nn.Module):
    def __init__(self, wide, nonlinearity):
        super().__init__()
        self.fc = nn.Linear(wide, wide)
        self.nonlinearity = nonlinearity()

    def forward(self, x):
        return self.nonlinearity(self.fc(x))


class OnDevice(nn.Module):
    def __init__(self, wide, device):
        super().__init__()
        self.noise = torch.zeros(wide, device=device)
        self.fc = nn.Linear(wide, wide)

    def forward(self, x):
        return self.fc(x + self.noise)


class OnGpu(nn.Module):
    def __init__(self, wide=4, device="cuda:0"):
        super().__init__()
        self.fc = nn.Linear(wide, wide, device=device)

    def forward(self, x):
        return self.fc(x)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inplanes, planes):
        super().__init__()
        self.narrow = nn.Conv2d(inplanes, planes, 1)
        self.wide = nn.Conv2d(planes, planes * self.expansion, 1)

    def forward(self, x):
        return x + self.wide(self.narrow(x))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes):
        super().__init__()
        self.conv = nn.Conv2d(inplanes, planes, 1)

    def forward(self, x):
        return self.conv(x)


class PoolBlock(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class WideNet(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block(16, 4)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        return self.head(self.block(x))


class Packed(nn.Module):
    def __init__(self, wide=5):
        super().__init__()
        self.rnn = nn.GRU(wide, wide, batch_first=True)

    def forward(self, x, m_lens):
        packed = nn.utils.rnn.pack_padded_sequence(x, m_lens.tolist(), batch_first=True)
        return self.rnn(packed)[1]


class Optional(nn.Module):
    def __init__(self, wide=5):
        super().__init__()
        self.fc = nn.Linear(wide, wide)

    def forward(self, x, lengths=None, hidden=None):
        last = x[torch.arange(len(x)), lengths - 1]
        return self.fc(last)


class Convs(nn.Module):
    def __init__(self, wide, kernel_size, num_layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(wide, wide, kernel_size) for _ in range(num_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Configured(nn.Module):
    def __init__(self, wide, config):
        super().__init__()
        self.inner = Convs(wide, **config)

    def forward(self, x):
        return self.inner(x)


class Listed(nn.Module):
    def __init__(self, config, size):
        super().__init__()
        self.inner = Convs(*config)
        self.size = size

    def forward(self, x):
        return self.inner(x) * self.size


class Shaped(nn.Module):
    def __init__(self, shape, wide):
        super().__init__()
        assert len(shape) == 3
        self.fc = nn.Linear(shape[0], wide)

    def forward(self, x):
        return self.fc(x)


class Agent(nn.Module):
    def __init__(self, shape_config, hidden):
        super().__init__()
        self.inner = Shaped(*shape_config)
        self.hidden = hidden

    def forward(self, x):
        return self.inner(x) * self.hidden


class Deep(nn.Module):
    def __init__(self, widths: list[int], n_blocks=5):
        super().__init__()
        if len(widths) != n_blocks:
            raise ValueError(f"Model depth is {n_blocks}, but you provide `widths` for {len(widths)} blocks.")
        self.layers = nn.ModuleList(nn.Linear(wide, wide) for wide in widths)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
NAMES = [
    "Vocabulary", "Window", "Cell", "Kernel", "Table", "Steps", "Wrapper", "Activated", "OnDevice",
    "OnGpu", "Bottleneck", "WideNet", "Packed", "Optional",
    "Configured", "Listed", "Deep", "Agent",
]  # fmt: skip


@pytest.fixture
def side(tmp_path: Path):
    return opened(tmp_path, MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_exchanged_until_they_fit(side, name) -> None:
    book = CaseFinder(side, (name,), budget_s=30.0)
    book.add_guesses()
    assert not book.missing, book.reasons


@pytest.mark.slow
def test_one_heavy_expression_leaves_time_for_other_classes(tmp_path) -> None:
    heavy = """
        import time
        from torch import nn


        class Slow(nn.Module):
            def __init__(self, wide):
                super().__init__()
                self.fc = nn.Linear(wide, wide)

            def forward(self, x):
                time.sleep(0.5)
                raise ValueError("never")


        class Small(nn.Module):
            def __init__(self, wide):
                super().__init__()
                self.fc = nn.Linear(wide, wide)

            def forward(self, x):
                return self.fc(x)


        def main():
            return Slow(3), Slow(4), Slow(5)
        """
    book = CaseFinder(opened(tmp_path, textwrap.dedent(heavy)), ("Slow", "Small"), budget_s=8.0)
    book.add_expressions()
    book.add_guesses()
    assert book.missing == ("Slow",)


def test_counts_are_small_however_they_are_written() -> None:
    text = (
        "class Deep(nn.Module):\n"
        "    def __init__(self, nStack, nBlockCount, level_num, n_encoder_layers, num_blocks, wide):\n"
        "        super().__init__()\n"
    )
    made: dict[str, Any] = {"nn": nn, "__name__": "models"}
    exec(text, made)
    assert next(guess_constructor_arguments(made["Deep"])) == {
        "nStack": 1,
        "nBlockCount": 1,
        "level_num": 1,
        "n_encoder_layers": 1,
        "num_blocks": (1, 1, 1, 1),
        "wide": 16,
    }


class Made:
    """A class of no file: only the line says something."""

    def __init__(self, sizes, names, fn):
        pass


def _fit(refusal: str, line: str, **given):
    made = nn.Linear(2, 2)
    return fitting(Made, given, refusal, line, lambda kind: made, lambda name: f"<{name}>")


@pytest.mark.parametrize(
    ("refusal", "line", "given", "wanted"),
    [
        ("TypeError: object of type 'int' has no len()", "n = len(sizes)", {"sizes": 3}, (3,) * 4),
        ("TypeError: object of type 'int' has no len()", "n = len(self.sizes)", {"sizes": 3}, (3,) * 4),
        ("TypeError: 'int' object is not subscriptable", "a = sizes[0]", {"sizes": 3}, (3,) * 4),
        ("TypeError: 'int' object is not subscriptable", "a = sizes['k']", {"sizes": 3}, {"k": "<k>"}),
        ("TypeError: 'int' object is not iterable", "for s in sizes:", {"sizes": 3}, (3,) * 4),
        ("TypeError: cannot unpack non-iterable int object", "a, b, c = sizes", {"sizes": 3}, (3,) * 3),
        ("AttributeError: 'int' object has no attribute 'items'", "sizes.items()", {"sizes": 3},
         {"first": 3, "second": 3}),
        ("AttributeError: 'int' object has no attribute 'lower'", "sizes.lower()", {"sizes": 3}, "same"),
        ("KeyError: 'same'", "nets[sizes]", {"sizes": "same"}, "resnet18"),
        ("RuntimeError: Unknown model (same)", "create(sizes)", {"sizes": "same"}, "resnet18"),
        ("AttributeError: 'int' object has no attribute 'append'", "sizes.append(1)", {"sizes": 3}, [3] * 4),
    ],
)  # fmt: skip
def test_a_value_of_the_kind_that_the_line_uses(refusal, line, given, wanted) -> None:
    assert _fit(refusal, line, **given) == {"sizes": wanted}


@pytest.mark.parametrize(
    ("refusal", "line", "given"),
    [
        ("TypeError: object of type 'int' has no len()", "n = len(others)", {"sizes": 3}),
        ("TypeError: object of type 'int' has no len()", "n = len(sizes)", {"sizes": (1, 2)}),
        ("AttributeError: 'int' object has no attribute 'most'", "net.most", {"net": "text"}),
        ("ValueError: something else", "n = len(sizes)", {"sizes": 3}),
        ("ValueError: sizes must be the same as others", "x", {"sizes": "same"}),
    ],
)
def test_what_fits_or_is_not_named_stays(refusal, line, given) -> None:
    assert _fit(refusal, line, **given) == {}


def test_a_key_may_be_any_text(tmp_path) -> None:
    text = "from torch import nn\n\n\nclass Odd(nn.Module):\n    def __init__(self, info):\n"
    text += (
        "        super().__init__()\n        self.fc = nn.Linear(info['in'], info['wide out'])\n\n"
    )
    text += "    def forward(self, x):\n        return self.fc(x)\n"
    book = CaseFinder(opened(tmp_path, text), ("Odd",), budget_s=10.0)
    book.add_guesses()
    assert not book.missing, book.reasons


def test_what_is_called_is_a_layer_or_makes_one() -> None:
    refusal = "TypeError: 'int' object is not callable"
    assert _fit(refusal, "self.fn = fn(3)", fn=3) == {"fn": nn.Identity}
    assert isinstance(_fit(refusal, "return self.fn(x)", fn=3)["fn"], nn.Identity)
