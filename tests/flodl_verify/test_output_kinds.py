"""A difference in one leaf is found in values of every kind; what hides a leaf is not compared."""

from __future__ import annotations

import copy
import itertools
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flodl.pytree import Unseen, flatten
from flodl_verify.values.comparison import find_mismatches, worst_of
from flodl_verify.values.snapshot import Freezer, Snapshot
from tests.flodl_verify.output_kinds import AROUND, Plain, captured
from tests.flodl_verify.output_pairs import PAIRS

pytestmark = [
    pytest.mark.torch,
    # Torch says of some kinds that they are new or old.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

ONE, TWO = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])


def snapshot(value: object) -> Snapshot:
    freezer = Freezer()
    return freezer.freeze_tree(freezer.flatten(value, "x", draw=True))


def grade(left: object, right: object) -> str | None:
    worst = worst_of(find_mismatches(snapshot(left), snapshot(right), "x"))
    return None if worst is None else worst.grade


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_difference_in_one_leaf_is_found(around: Callable[[object], object]) -> None:
    assert grade(around(ONE), around(TWO)) == "different"


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_values_made_alike_are_equal(around: Callable[[object], object]) -> None:
    assert grade(around(ONE), around(ONE.clone())) is None


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_different_values_of_one_kind_differ(pair: Callable[[], tuple[object, object]]) -> None:
    left, right = pair()
    assert grade(left, right) == "different"


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_values_of_one_kind_made_twice_are_equal(
    pair: Callable[[], tuple[object, object]],
) -> None:
    for left, right in zip(pair(), pair(), strict=True):
        assert grade(left, right) is None


LEAVES = st.sampled_from(sorted(PAIRS))
NESTS = st.lists(st.sampled_from(sorted(AROUND)), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(NESTS, LEAVES)
def test_difference_in_one_leaf_of_a_nest_is_found(kinds: list[str], leaf: str) -> None:
    def nest(part: object) -> object:
        for kind in kinds:
            part = AROUND[kind](part)
        return part

    left, right = PAIRS[leaf]()
    assert grade(nest(left), nest(right)) == "different"
    assert grade(nest(PAIRS[leaf]()[0]), nest(PAIRS[leaf]()[0])) is None


@pytest.mark.parametrize(
    "hidden",
    [
        lambda: sys.__stdout__,
        threading.local,
        lambda: (item for item in itertools.count()),
        torch._C.Graph,
    ],
    ids=["open file", "thread-local", "endless generator", "graph of TorchScript"],
)
def test_a_value_that_cannot_be_looked_into_is_not_equal(hidden: Callable[[], object]) -> None:
    left, right = {"a": [hidden()]}, {"a": [hidden()]}
    mismatches = list(find_mismatches(snapshot(left), snapshot(right), "output"))
    assert [(item.path, item.grade) for item in mismatches] == [("output/a/0", "unseen")]
    assert "is not compared" in mismatches[0].text


def test_a_difference_outweighs_what_is_unseen_and_what_is_close() -> None:
    def value(number: float, last: int) -> list[object]:
        return [torch.tensor([number]), threading.local(), last]

    assert grade(value(1.0, 1), value(1.0000001, 2)) == "different"
    assert grade(value(1.0, 1), value(1.0000001, 1)) == "unseen"


def test_other_bodies_of_local_functions_are_not_compared() -> None:
    assert grade(captured(1), lambda: 1) == "unseen"


def test_more_values_than_the_limit_are_unseen() -> None:
    tree = flatten({"few": [1], "many": list(range(100))}, max_nodes=50)
    found = {tree.path(i): type(node.content) for i, node in enumerate(tree.nodes)}
    assert found["/many"] is Unseen
    assert "/few/0" in found


def test_depth_has_no_limit_and_shared_parts_are_walked_once() -> None:
    def deep(leaf: int) -> object:
        value: object = [leaf]
        for _ in range(5_000):
            value = [value]
        return value

    assert grade(deep(1), deep(2)) == "different"
    assert grade(deep(1), deep(1)) is None

    def doubled(leaf: int) -> object:
        value: object = (leaf,)
        for _ in range(60):
            value = (value, value)
        return value

    assert grade(doubled(1), doubled(2)) == "different"
    assert grade(doubled(1), doubled(1)) is None


def test_one_object_twice_differs_from_two_objects() -> None:
    def pair(shared: bool) -> list[object]:
        first = [1]
        return [first, first if shared else [1]]

    assert grade(pair(True), pair(False)) == "different"
    assert grade(pair(True), pair(True)) is None
    item = (1, 2)
    assert grade([item, item], [item, copy.copy((1, 1 + 1))]) is None


def test_an_output_that_is_an_input_differs_from_its_copy() -> None:
    def sections(returned: Callable[[list[int]], list[int]]) -> list[Snapshot]:
        freezer = Freezer()
        given = [1, 2]
        return [freezer.freeze(returned(given), "output"), freezer.freeze(given, "inputs")]

    same, own = sections(lambda given: given), sections(list)
    found = [
        item
        for left, right in zip(same, own, strict=True)
        for item in find_mismatches(left, right, "inputs")
    ]
    assert [item.grade for item in found] == ["different"]


def test_memory_shared_between_arrays_and_tensors_is_seen() -> None:
    def pair(shared: bool) -> list[object]:
        tensor = torch.ones(3)
        return [tensor, tensor.numpy() if shared else tensor.numpy().copy()]

    assert grade(pair(True), pair(True)) is None
    assert grade(pair(True), pair(False)) == "different"


def test_walk_calls_no_method_of_user_code() -> None:
    class Loud(Plain):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

        __eq__ = __hash__ = __iter__ = __len__ = __repr__ = __reduce_ex__ = __getattribute__

    tree = flatten([Loud.__new__(Loud)])
    assert len(tree.nodes) == 2
