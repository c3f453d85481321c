"""Constructors that take a settings object get a small one, of the kind they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl.verify.casebook import Casebook
from flodl.verify.sides import open_sides

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
    book = Casebook(original, names, budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        model = book.cases["Model"][0].construction.build(original)
    assert model.emb.num_embeddings < 100
    assert len(model.blocks) == 1
