"""Snapshots are compared bit by bit: values, and everything else that later code could notice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn

from flodl_verify.values.comparison import find_mismatches, same_bits
from flodl_verify.values.snapshot import Freezer, tensors_in

pytestmark = pytest.mark.torch


class Pair(NamedTuple):
    a: object
    b: object


class Triple(NamedTuple):
    a: object
    b: object


@dataclass
class Output:
    value: torch.Tensor
    label: str


def differences(left: object, right: object) -> list[str]:
    first, second = Freezer().freeze(left, "x"), Freezer().freeze(right, "x")
    return [str(item) for item in find_mismatches(first, second, "x")]


ONE = torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "value",
    [
        ONE,
        torch.tensor([float("nan"), 1.0]),
        torch.tensor([1 + 2j]),
        torch.tensor([True]),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, 3).to_sparse(),
        torch.zeros(0, 3),
        Pair(ONE, None),
        {"a": [ONE, (1, "b")]},
        Output(ONE, "x"),
        nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]),
        torch.distributions.Normal(ONE, ONE),
        None,
        torch.float32,
    ],
    ids=str,
)
def test_a_value_equals_its_copy(value: object) -> None:
    import copy

    assert differences(value, copy.deepcopy(value)) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (ONE, torch.tensor([1.0, 2.0000002])),
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.tensor(float("nan")), torch.tensor(1.0)),
        (ONE, ONE.double()),
        (ONE, ONE[:, None]),
        (ONE, ONE.clone().requires_grad_()),
        (ONE, nn.Parameter(ONE, requires_grad=False)),
        (ONE, None),
        (torch.ones(2, 3), torch.ones(3, 2).t()),
        ([ONE], (ONE,)),
        (Pair(ONE, ONE), Triple(ONE, ONE)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"b": 1}),
        (Output(ONE, "x"), Output(ONE, "y")),
        ((1, 2), (1, 2, 3)),
        (1, 1.0),
        (1, True),
        (torch.ones(2, 2), torch.ones(2, 2).to_sparse()),
        (torch.distributions.Normal(ONE, ONE), torch.distributions.Normal(ONE, ONE * 2)),
    ],
    ids=str,
)
def test_what_differs_is_seen(left: object, right: object) -> None:
    assert differences(left, right) != []


def test_nan_payloads_do_not_matter() -> None:
    quiet = torch.tensor([0x7FC00000], dtype=torch.int32).view(torch.float32)
    other = torch.tensor([0x7FC12345], dtype=torch.int32).view(torch.float32)
    assert same_bits(quiet, other)


@pytest.mark.parametrize(("factor", "close"), [(1 + 2e-7, True), (1 + 1e-5, False)])
def test_close_is_a_few_units_in_the_last_place(factor: float, close: bool) -> None:
    base = torch.linspace(1.0, 2.0, 50)
    first, second = Freezer().freeze(base, "x"), Freezer().freeze(base * factor, "x")
    found = list(find_mismatches(first, second, "x"))
    assert [item.grade == "close" for item in found] == [close]


def test_shared_memory_is_part_of_the_value() -> None:
    def frozen(output: torch.Tensor, given: torch.Tensor) -> object:
        freezer = Freezer()
        freezer.know([("input", given)])
        return freezer.freeze(output, "output")

    given = torch.ones(3)
    view, copy = frozen(given[:2], given), frozen(given[:2].clone(), given)
    assert [item.text for item in find_mismatches(view, copy, "output")] == [
        "memory shared with nothing instead of input"
    ]


def test_later_writes_do_not_reach_a_snapshot() -> None:
    value = torch.ones(2)
    before = Freezer().freeze(value, "x")
    value.add_(1)
    assert list(find_mismatches(before, Freezer().freeze(torch.ones(2), "x"), "x")) == []


def test_cycles_end() -> None:
    loop: list[object] = [ONE]
    loop.append(loop)
    assert differences(loop, loop) == []
    assert [path for path, _ in tensors_in(loop)] == ["/0"]
