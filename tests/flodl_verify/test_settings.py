"""Constructors that take a settings object get a small one, of the kind they read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

MODELS = """
import dataclasses
import torch
from torch import nn

@dataclasses.dataclass
class Options:
    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.fc = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        return self.fc(x)

class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])

    def forward(self, idx):
        assert idx.shape[1] <= self.config.block_size
        x = self.emb(idx)
        for block in self.blocks:
            x = block(x)
        return x

class ByKey(nn.Module):
    def __init__(self, cfg, width):
        super().__init__()
        self.a = nn.Linear(width, cfg["hidden_dim"])
        self.drop = nn.Dropout(cfg["dropout"])

    def forward(self, x):
        return self.drop(self.a(x))

class ByName(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.a = nn.Linear(args.input_dim, args.num_classes)

    def forward(self, x):
        return self.a(x)
"""


def test_settings_are_guessed(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    original, _ = open_sides(file, file, ())
    original.load()
    names = ("Model", "Block", "ByKey", "ByName")
    book = CaseFinder(original, names, budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        model = book.cases["Model"][0].construction.build(original)
    assert model.emb.num_embeddings < 100
    assert len(model.blocks) == 1


PROGRAM = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--d_model", "-d", type=int, required=True, default=24)
parser.add_argument("--n-heads", type=int, default=3)
parser.add_argument("--freq", choices=["hourly", "daily"])
parser.add_argument("--no_bias", action="store_false", dest="bias")
parser.add_argument("--inverse", action="store_true")
"""
OTHER_PROGRAM = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--d_model", type=int, default=7)
"""
READS = """
from torch import nn


class Model(nn.Module):
    def __init__(self, configs):
        super().__init__()
        assert configs.freq == "hourly"
        assert not configs.inverse
        self.tokens = nn.Linear(configs.d_model, configs.d_model, bias=configs.bias)
        self.attention = nn.MultiheadAttention(configs.d_model, configs.n_heads)
        self.drop = nn.Dropout(configs.dropout)

    def forward(self, x):
        h = self.tokens(x)
        return self.drop(self.attention(h, h, h)[0])
"""


def test_settings_are_those_of_the_programs_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "run.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "another.py").write_text(OTHER_PROGRAM, encoding="utf-8")
    file = folder / "reads.py"
    file.write_text(READS, encoding="utf-8")
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Model",), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        model = book.cases["Model"][0].construction.build(original)
    assert model.tokens.in_features == 24


CHOICES = """
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, kind, ntoken, ninp, nhead, nlayers, dp_ratio):
        super().__init__()
        self.embed = nn.Embedding(ntoken, ninp)
        if kind in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, kind)(ninp, ninp, nlayers)
        else:
            name = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[kind]
            self.rnn = nn.RNN(ninp, ninp, nlayers, nonlinearity=name)
        self.attention = nn.MultiheadAttention(ninp, nhead, dropout=dp_ratio)

    def forward(self, x):
        h = self.rnn(self.embed(x))[0]
        return self.attention(h, h, h)[0]


class Options:
    pass


class Ready(nn.Module):
    @staticmethod
    def get_default_config():
        found = Options()
        found.preset, found.width, found.num_heads, found.rate = "base", None, None, 0.2
        return found

    def __init__(self, config):
        super().__init__()
        assert (config.preset is None) != (config.width is None)
        if config.preset is not None:
            config.width, config.num_heads = {"large": (4096, 64)}[config.preset]
        self.fc = nn.Linear(config.width, config.width // config.num_heads)
        self.drop = nn.Dropout(config.rate)

    def forward(self, x):
        return self.drop(self.fc(x))
"""


def test_choices_by_text_and_settings_made_by_default(tmp_path: Path) -> None:
    file = tmp_path / "choices.py"
    file.write_text(CHOICES, encoding="utf-8")
    original, _ = open_sides(file, file, ())
    original.load()
    book = CaseFinder(original, ("Cell", "Ready"), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        cell = book.cases["Cell"][0].construction.build(original)
        ready = book.cases["Ready"][0].construction.build(original)
    assert type(cell.rnn).__name__ == "LSTM"
    assert ready.drop.p == 0.2


LAYERS = """
from __future__ import annotations
from typing import Callable, List, Optional, Sequence, Tuple, Type
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model: int, heads: int):
        super().__init__()
        assert d_model % heads == 0
        self.q = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.q(x).softmax(-1)


class Layer(nn.Module):
    def __init__(self, *, d_model: int, attn: Attention, dropout_prob: float):
        super().__init__()
        self.attn = attn
        self.norm = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout_prob)

    def forward(self, x):
        return x + self.drop(self.attn(self.norm(x)))


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class Pyramid(nn.Module):
    def __init__(
        self,
        channels: Sequence[int],
        dilations: Tuple[int, int],
        norm_layer: Type[nn.Module],
        activation: Callable,
        parts: Optional[List[nn.Module]],
    ):
        super().__init__()
        pairs = zip(channels[:-1], channels[1:])
        self.blocks = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairs)
        self.norm = norm_layer(channels[-1])
        self.parts = nn.ModuleList(parts)
        self.activation = activation
        self.first, self.second = dilations

    def forward(self, x):
        for block in self.blocks:
            x = self.activation(block(x))
        return self.norm(x)
"""


def test_layers_and_lists_are_guessed_as_arguments(tmp_path: Path) -> None:
    file = tmp_path / "layers.py"
    file.write_text(LAYERS, encoding="utf-8")
    original, port = open_sides(file, file, ())
    original.load()
    port.load()
    names = ("Layer", "PreNorm", "Pyramid")
    book = CaseFinder(original, names, budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    # A layer that is an argument is made anew on each side, of the class that is there.
    with port.active():
        model = book.cases["Layer"][0].construction.build(port)
    assert type(model.attn) is port.namespace()["Attention"]


OWN_SETTINGS = """
import torch
from torch import nn

class NetConfig:
    def __init__(self, vocab_size=30522, hidden_size=768, num_layers=12, num_heads=12, act="relu", **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.act = act
        self.pad = kwargs.pop("pad", 0)

class OtherConfig:
    def __init__(self, depth=3):
        self.depth = depth

class Strict(nn.Module):
    config_class = NetConfig

    def __init__(self, config):
        super().__init__()
        if not isinstance(config, NetConfig):
            raise TypeError("config must be a NetConfig")
        self.emb = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(config.hidden_size, config.num_heads, 8, activation=config.act)
            for _ in range(config.num_layers)
        )

    def forward(self, input_ids=None, inputs_embeds=None):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("You have to specify either input_ids or inputs_embeds")
        x = self.emb(input_ids) if inputs_embeds is None else inputs_embeds
        for layer in self.layers:
            x = layer(x)
        return x

class Annotated(nn.Module):
    def __init__(self, config: "OtherConfig"):
        super().__init__()
        assert type(config) is OtherConfig
        self.a = nn.Linear(config.depth, 2)

    def forward(self, x):
        return self.a(x)

class ByModule(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert type(config) is NetConfig
        self.a = nn.Linear(config.hidden_size, config.num_heads)

    def forward(self, x):
        return self.a(x)
"""


def test_settings_are_of_the_class_that_the_program_has_for_them(tmp_path: Path) -> None:
    original = opened(tmp_path, OWN_SETTINGS)
    book = CaseFinder(original, ("Strict", "Annotated", "ByModule"), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        strict = book.cases["Strict"][0].construction.build(original)
        annotated = book.cases["Annotated"][0].construction.build(original)
    assert strict.emb.embedding_dim == 32
    assert len(strict.layers) == 2
    assert annotated.a.in_features == 2  # of a depth of 3, which is made small as well


STALLED = """
import time

from torch import nn

class NetConfig:
    def __init__(self, hidden_size=768):
        self.hidden_size = hidden_size

class Net(nn.Module):
    calls = 0

    def __init__(self, config: NetConfig):
        super().__init__()
        self.a = nn.Linear(config.hidden_size, 2)

    def forward(self, x):
        Net.calls += 1
        time.stall()
        if Net.calls < 3:
            raise ValueError("not these")
        return self.a(x)
"""


def test_settings_on_a_busy_machine_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, usual = [0.0], time.monotonic

    def stall() -> None:
        lost[0] += 1.0  # others have the processor

    monkeypatch.setattr(time, "monotonic", lambda: usual() + lost[0])
    monkeypatch.setattr(time, "stall", stall, raising=False)
    original = opened(tmp_path, STALLED)
    # A class alone gets a fifth of it; its model two fifths of that.
    book = CaseFinder(original, ("Net",), budget_s=20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        assert book.cases["Net"][0].construction.build(original).a.in_features == 32
