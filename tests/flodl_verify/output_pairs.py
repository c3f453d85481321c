"""Pairs of values of one kind that differ."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import io
import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.flodl_verify.output_kinds import Held, Plain, failing, generated


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Bits(enum.Flag):
    A = 1
    B = 2


def quantized(scale: float, zero: int = 0) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.zeros(3), scale, zero, torch.qint8)


def seeded(kind: type, seed: int) -> Any:
    return kind(seed)


def generator_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def written(text: bytes) -> io.BytesIO:
    made = io.BytesIO()
    made.write(text)
    return made


def layer_of(value: float) -> nn.Module:
    layer = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(value)
    return layer


def buffered(value: float) -> nn.Module:
    layer = nn.Module()
    layer.register_buffer("seen", torch.tensor(value))
    return layer


def masked(mask: list[bool]) -> Any:
    return np.ma.masked_array([1, 2], mask)


def structured(value: int) -> Any:
    return np.array([(value, 0.5)], dtype=[("number", "i4"), ("share", "f8")])


def sparse(index: int, value: float = 1.0) -> torch.Tensor:
    return torch.sparse_coo_tensor([[index]], [value], (3,))


# Two values of one kind that differ.
PAIRS: dict[str, Callable[[], tuple[object, object]]] = {
    "bool": lambda: (True, False),
    "int": lambda: (1, 2),
    "long int": lambda: (10**5000, 10**5000 + 1),
    "float": lambda: (1.0, 1.0000000000000002),
    "zeros": lambda: (0.0, -0.0),
    "complex": lambda: (1j, 2j),
    "str": lambda: ("a", "b"),
    "long str": lambda: ("a" * 9999 + "a", "a" * 9999 + "b"),
    "bytes": lambda: (b"a", b"b"),
    "None": lambda: (None, ...),
    "int and bool": lambda: (1, True),
    "int and float": lambda: (1, 1.0),
    "key types": lambda: ({1: 0}, {"1": 0}),
    "key order": lambda: ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "set": lambda: ({1, "a"}, {1, "b"}),
    "maxlen": lambda: (collections.deque([1], 2), collections.deque([1], 3)),
    "default factory": lambda: (collections.defaultdict(list), collections.defaultdict(dict)),
    "bytearray": lambda: (bytearray(b"a"), bytearray(b"b")),
    "memoryview": lambda: (memoryview(b"a"), memoryview(b"b")),
    "array": lambda: (array.array("i", [1]), array.array("i", [2])),
    "range": lambda: (range(3), range(4)),
    "enum": lambda: (Color.RED, Color.BLUE),
    "flag": lambda: (Bits.A, Bits.A | Bits.B),
    "datetime": lambda: (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)),
    "Decimal": lambda: (decimal.Decimal(1), decimal.Decimal(2)),
    "Fraction": lambda: (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "Path": lambda: (Path("a"), Path("b")),
    "pattern": lambda: (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "BytesIO": lambda: (written(b"a"), written(b"b")),
    "Random": lambda: (random.Random(1), random.Random(2)),
    "count": lambda: (itertools.count(1), itertools.count(2)),
    "class": lambda: (Plain, Held),
    "function": lambda: (generated, failing),
    "built-in function": lambda: (print, len),
    "torch.Size": lambda: (torch.Size([1]), torch.Size([2])),
    "torch.dtype": lambda: (torch.float32, torch.float64),
    "torch.device": lambda: (torch.device("cpu"), torch.device("meta")),
    "torch.layout": lambda: (torch.strided, torch.sparse_coo),
    "torch.Generator": lambda: (generator_of(1), generator_of(2)),
    "storage": lambda: (torch.ones(2).untyped_storage(), torch.zeros(2).untyped_storage()),
    "tensor": lambda: (torch.ones(2), torch.tensor([1.0, 2.0])),
    "parameter": lambda: (nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))),
    "meta tensor": lambda: (torch.ones(2, device="meta"), torch.ones(3, device="meta")),
    "sparse values": lambda: (sparse(1), sparse(1, 2.0)),
    "stored zeros": lambda: (sparse(1, 0.0), sparse(2, 0.0)),
    "compressed": lambda: (torch.eye(2).to_sparse_csr(), (2 * torch.eye(2)).to_sparse_csr()),
    "layouts": lambda: (torch.eye(2).to_sparse_csr(), torch.eye(2).to_sparse_csc()),
    "quantized": lambda: (quantized(0.1), quantized(0.2)),
    "zero point": lambda: (quantized(0.1), quantized(0.1, 1)),
    "nested": lambda: tuple(
        torch.nested.nested_tensor([torch.ones(n), torch.ones(4 - n)]) for n in (1, 2)
    ),
    "array of numbers": lambda: (np.arange(3), np.array([0, 1, 3])),
    "array dtype": lambda: (np.zeros(2, "f4"), np.zeros(2, "f8")),
    "array shape": lambda: (np.zeros((2, 1)), np.zeros((1, 2))),
    "array of texts": lambda: (np.array(["a", "b"]), np.array(["a", "c"])),
    "array of dates": lambda: (np.array(["2020"], "M8[D]"), np.array(["2021"], "M8[D]")),
    "structured array": lambda: (structured(1), structured(2)),
    "masked array": lambda: (masked([True, False]), masked([False, True])),
    "numpy scalar": lambda: (np.float32(1), np.float32(2)),
    "numpy generator": lambda: (np.random.default_rng(1), np.random.default_rng(2)),
    "weights of a module": lambda: (layer_of(1), layer_of(2)),
    "buffer of a module": lambda: (buffered(1), buffered(2)),
    "mode of a module": lambda: (nn.Dropout().train(), nn.Dropout().eval()),
    "packed sequence": lambda: tuple(
        nn.utils.rnn.pack_sequence([torch.ones(2), torch.full((1,), value)]) for value in (1.0, 2)
    ),
    "distribution": lambda: tuple(
        torch.distributions.Normal(torch.zeros(1), torch.tensor([value])) for value in (1.0, 2)
    ),
    "return type": lambda: (torch.max(torch.ones(2), 0), torch.max(torch.tensor([1.0, 2]), 0)),
}
