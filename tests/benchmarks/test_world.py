"""The comparison of `benchmarks/world.py`: every kind of difference is found, equal results are equal."""

from collections import OrderedDict, deque
from dataclasses import dataclass

import pytest
import torch

from benchmarks import families
from benchmarks.world_mutation.compare import UncomparedError, difference
from benchmarks.world_mutation.families import FAMILIES

pytestmark = pytest.mark.torch
X = torch.arange(6.0).reshape(2, 3)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


@dataclass
class Output:
    loss: object


class Cache:
    def __init__(self, keys):
        self.layers = [keys]


DIFFERENT = {
    "a value": (X, X + torch.eye(2, 3)),
    "a stride": (X, X.t().contiguous().t()),
    "a dtype": (X, X.double()),
    "a shape": (X, X.reshape(3, 2)),
    "a gradient": (X, X.clone().requires_grad_()),
    "the sign of zero": (torch.zeros(1), -torch.zeros(1)),
    "a NaN": (torch.tensor([float("nan")]), torch.zeros(1)),
    "None": (None, X),
    "a number": (1.0, 1),
    "the order of a dict": ({"a": X, "b": X}, {"b": X, "a": X}),
    "the type of a dict": (OrderedDict(a=X), {"a": X}),
    "an item of a deque": (deque([X, X]), deque([X, X + 1])),
    "the length of a list": ([X], [X, X]),
    "a list for a tuple": ([X], (X,)),
    "a slot": (Slotted(X), Slotted(X + 1)),
    "a field": (Output(X), Output(X + 1)),
    "inside an object": (Cache(X), Cache(X + 1)),
    "a function": (torch.relu, torch.tanh),
    "a set": ({1, 2}, {1, 3}),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_difference_of_two_results_is_found(case):
    one, two = DIFFERENT[case]
    assert difference({"out": one}, {"out": two}) is not None
    assert difference({"out": one}, {"out": one}) is None


def test_difference_of_equal_results_with_circles_is_none():
    one, two = Cache(X), Cache(X.clone())
    one.layers.append(one)
    two.layers.append(two)
    assert difference(one, two) is None


def test_difference_of_something_without_parts_is_an_error():
    with pytest.raises(UncomparedError, match="generator"):
        difference((each for each in "ab"), (each for each in "ab"))


def test_families_are_many_and_named_once():
    names = [each.name for each in FAMILIES]
    assert len(set(names)) == len(names)
    assert sum(each.library == "transformers" for each in FAMILIES) >= 30
    assert {each.library for each in FAMILIES} == {"transformers", "timm", "torchvision"}


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ([], "-"),
        (["equal", "equal"], "equal"),
        (["equal", "both raise"], "both raise"),
        (["no case", "equal"], "equal"),
        (["both raise", "silently different"], "silently different"),
        (["equal", "not run"], "not run"),
    ],
)
def test_status_of_a_use_is_the_worst_of_its_changes(statuses, worst):
    changes = {f"half {number}": {"status": each} for number, each in enumerate(statuses)}
    changes["double"] = {"status": "raises instead"}
    assert families.status_of({"changes": changes}, ("half",)) == worst
