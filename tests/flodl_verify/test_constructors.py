"""Constructors say what they want: in their signature, in what they read, and when they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.inputs.rules.asked_arguments import asked_for
from flodl_verify.inputs.rules.constructor_guesses import guess_constructor_arguments
from flodl_verify.inputs.rules.lighter_sizes import smaller_settings
from flodl_verify.sources.class_sources import class_node, constructor_node
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

MODELS = """
import collections
import torch
from torch import nn

BINARY = "binary"
Sizes = collections.namedtuple("Sizes", ["wide", "stride"])


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)


class WideBlock(Block):
    expansion = 2

    def __init__(self, width):
        super().__init__(width * self.expansion)


class Net(nn.Module):
    def __init__(self, block, layers, width=8):
        super().__init__()
        self.blocks = nn.Sequential(*(block(width) for _ in range(sum(layers))))
        self.into = nn.Linear(4, width * block.expansion)

    def forward(self, x):
        return self.blocks(self.into(x))


class Encoder(Net):
    def __init__(self, out_channels, **kwargs):
        super().__init__(**kwargs)


class Loss(nn.Module):
    def __init__(self, mode):
        super().__init__()
        assert mode in {BINARY}

    def forward(self, x):
        return x.mean()


class Loaded(nn.Module):
    def __init__(self, width=4, encoder_weights="imagenet", pretrained=True):
        super().__init__()
        if encoder_weights or pretrained:
            raise ConnectionRefusedError("no network")
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)


def rounded(sizes):
    return sizes.deep * 2


class Read(nn.Module):
    def __init__(self, sizes: Sizes, width):
        super().__init__()
        self._sizes = sizes
        self.conv = nn.Conv1d(self._sizes.wide, rounded(sizes), 3, stride=sizes.stride)

    def forward(self, x):
        return self.conv(x)


class Counts(nn.Module):
    def __init__(self, n_blocks, num_blocks: int):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(n_blocks + num_blocks)))

    def forward(self, x):
        return self.layers(x)


class Coder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        return self.fc(x), lengths


class CoderLayer(Block):
    pass


class Speech(nn.Module):
    def __init__(self, coder, wide):
        super().__init__()
        self.coder, self.into = coder, nn.Linear(4, wide)

    def forward(self, x):
        made, _ = self.coder(self.into(x), len(x))
        return made


class StackedCoder(nn.Module):
    def __init__(self, layers, norm=None):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer.fc(x)
        return x


class Grouped(nn.Module):
    def __init__(self, wide, deep):
        super().__init__()
        self.norm = nn.GroupNorm(24, wide)
        self.conv = nn.Conv2d(wide, deep, 1)

    def forward(self, x):
        return self.conv(self.norm(x))


class Refuses(nn.Module):
    def __init__(self, dim, depth=None, is_open=False):
        super().__init__()
        assert depth, "`depth` must be passed in"
        assert is_open
        self.layers = nn.Sequential(*(nn.Linear(dim, dim) for _ in range(depth)))

    def forward(self, x):
        return self.layers(x)
"""


NAMES = [
    "Net",
    "Encoder",
    "Loss",
    "Loaded",
    "Read",
    "Counts",
    "Refuses",
    "Speech",
    "StackedCoder",
    "Grouped",
]


@pytest.fixture
def side(tmp_path: Path):
    return opened(tmp_path, MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_found(side, name) -> None:
    book = CaseFinder(side, (name,), budget_s=30.0)
    book.add_guesses()
    assert not book.missing, book.reasons


def test_only_what_a_refusal_names_and_lacks_a_value_is_added() -> None:
    class Made:
        def __init__(self, dim, depth=None, heads=4, causal=False):
            pass

    def ask(given, refusal):
        return asked_for(Made, given, refusal, lambda item: f"<{item.name}>")

    assert ask({"dim": 1}, "`depth` and heads are wanted") == {"depth": "<depth>"}
    assert ask({"dim": 1}, "must be causal") == {"causal": True}
    assert ask({}, "missing 1 required argument: 'dim'") == {"dim": "<dim>"}
    assert ask({"dim": 1, "depth": 2}, "depth is odd") == {}


def test_the_source_of_a_class_is_found_where_it_stands() -> None:
    class Inner:
        def __init__(self, here):
            pass

    node = class_node(Inner)
    assert node is not None
    assert node.name == "Inner"
    constructor = constructor_node(Inner)
    assert constructor is not None
    assert constructor.args.args[1].arg == "here"
    assert class_node(type("Made", (), {})) is None


def test_a_class_that_is_large_by_default_is_made_smaller() -> None:
    class Large(nn.Module):
        def __init__(self, words, hidden=1024, n_layers=12, heads=4, dropout=0.1):
            super().__init__()
            self.words = nn.Embedding(words, hidden)
            self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(n_layers))

    class Small(Large):
        def __init__(self, words, hidden=1024, n_layers=4):
            super().__init__(words, hidden, n_layers)

    first, second, *_ = guess_constructor_arguments(Large)  # 12 million parameters
    assert first == {**second, "hidden": 64, "n_layers": 2}
    assert all(guess.keys() == {"words"} for guess in guess_constructor_arguments(Small))


@pytest.mark.parametrize(
    ("name", "heads", "width", "wanted"),
    [
        ("num_heads", 16, 1152, 128),  # a sixteenth is 72, which 16 heads do not divide
        ("nhead", 12, 768, 48),
        ("n_head", 4, 1024, 64),
        ("heads", 3, 1024, 64),  # three heads do not divide the width either
    ],
)
def test_smaller_sizes_are_divided_by_the_heads_that_divide_the_whole(name, heads, width, wanted):
    found = smaller_settings({"hidden": width, name: heads, "rate": 0.1, "depth": 28})
    assert found == {"hidden": wanted, name: heads, "rate": 0.1, "depth": 2}


STAGES = """
from typing import List
from torch import nn


class Stages(nn.Module):
    def __init__(self, blocks: List[List[int]]):
        super().__init__()
        assert len(blocks) == 5
        sizes = [3, *(channels for block in blocks for channels in block)]
        self.layers = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))

    def forward(self, x):
        return self.layers(x)
"""


def test_lists_of_lists_of_an_asserted_length(tmp_path: Path) -> None:
    book = CaseFinder(opened(tmp_path, STAGES), ("Stages",), budget_s=20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons


WANTS_MODULES = """
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, heads: int, d_model: int):
        super().__init__()
        self.value = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.value(x)


class Scaled(nn.Module):
    def __init__(self, d_model: int, attention: Heads, beta: float):
        super().__init__()
        self.attention = attention
        with torch.no_grad():
            attention.value.weight *= beta

    def forward(self, x):
        return self.attention(x)


class Grouped(nn.Module):
    def __init__(self, channels: int, multipliers: list[int]):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.conv = nn.Conv2d(channels, channels * multipliers[0], 1)

    def forward(self, x):
        return self.conv(self.norm(x))


class Around(nn.Module):
    def __init__(self, network: Grouped):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)
"""


def test_an_annotated_module_is_made_though_it_is_read_as_settings_are(tmp_path: Path) -> None:
    side = opened(tmp_path, WANTS_MODULES)
    with side.active():
        given = next(guess_constructor_arguments(side.namespace()["Scaled"]))
    assert isinstance(given["attention"], side.namespace()["Heads"])


def test_a_module_that_is_wanted_says_itself_what_it_refuses(tmp_path: Path) -> None:
    side = opened(tmp_path, WANTS_MODULES)
    with side.active():
        given = next(guess_constructor_arguments(side.namespace()["Around"]))
    network = given["network"]
    assert isinstance(network, side.namespace()["Grouped"])
    assert network.conv.in_channels == network.conv.out_channels == 32
