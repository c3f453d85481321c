"""Inputs that come as one argument: what a forward takes apart, or reads by key."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from flodl_verify.inputs.input_search import find_arguments
from flodl_verify.sandbox.seeds import seed_all
from flodl_verify.values.recipes import Arguments

pytestmark = pytest.mark.torch


class OfTuple(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.rnn = nn.GRU(8, 4, batch_first=True)

    def forward(self, inputs, scale):
        tokens, lengths = inputs
        packed = nn.utils.rnn.pack_padded_sequence(self.words(tokens), lengths, batch_first=True)
        return self.rnn(packed)[1] * scale.sum()


class OfTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 2)

    def forward(self, batch):
        batch["seen"] = True
        y = self.head(self.conv(batch["image"]).mean((2, 3)))
        return y, nn.functional.cross_entropy(y, batch["label"])


class OfTensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, pair):
        left, right = pair
        return self.fc(left) * self.fc(right) + pair.mean(dtype=torch.float64).float()


class OfItems(OfTuple):
    def forward(self, inputs):
        [first, second] = inputs
        return self.words(first).mean() + second.log_softmax(-1)


def found(model: nn.Module) -> Arguments:
    seed_all(3)
    arguments = find_arguments(model, Path(__file__), lambda: False)
    assert isinstance(arguments, tuple), arguments
    model(*arguments[0], **arguments[1])
    return arguments


def test_a_tuple_is_made_of_what_it_is_taken_apart_into() -> None:
    (inputs, scale), _ = found(OfTuple())
    assert isinstance(inputs, tuple)
    tokens, lengths = inputs
    assert tokens.dtype == torch.int64
    assert lengths.tolist() == [tokens.shape[1]] * tokens.shape[0]
    assert isinstance(scale, torch.Tensor)


def test_a_table_has_the_keys_that_are_read() -> None:
    ((batch,), _) = found(OfTable())
    assert list(batch) == ["image", "label", "seen"]  # the last by the call itself
    assert batch["image"].shape[1] == 3
    assert batch["label"].dtype == torch.int64


def test_a_tensor_that_is_taken_apart_stays_one() -> None:
    ((pair,), _) = found(OfTensor())
    assert isinstance(pair, torch.Tensor)
    assert pair.shape[0] == 2


def test_a_list_is_taken_apart_as_well() -> None:
    ((inputs,), _) = found(OfItems())
    assert inputs[0].dtype == torch.int64
    assert inputs[1].is_floating_point()
