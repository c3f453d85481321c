"""Lists and dicts that a step changes as values decide, and what follows such a step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from flodl import FlowModule, call

pytestmark = pytest.mark.torch

NOTED: list[int] = []


def fill(items: list[Any], x: torch.Tensor) -> None:
    if float(x.sum()) > 0:
        items.append(x + 1)


def order(items: list[Any]) -> None:
    items.sort(key=lambda each: float(each.sum()))


def drop(items: list[Any], x: torch.Tensor) -> None:
    if float(x.sum()) > 0:
        items.pop(0)


def note(seen: dict[str, Any], x: torch.Tensor) -> None:
    if float(x.sum()) > 0:
        seen["late"] = x * 3


def replace(items: list[Any], x: torch.Tensor) -> None:
    if float(x.sum()) > 0:
        items[0] = 7.0


def fill_inside(pair: list[Any], x: torch.Tensor) -> None:
    fill(pair[1], x)


def draw(items: list[Any], x: torch.Tensor) -> None:
    NOTED.append(1)
    items.append(x + torch.rand(3))


def run(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function as part of a plain forward."""
    return function(*args)


def filled(x: Any, step: Callable[..., Any]) -> Any:
    items = [x]
    step(fill, items, x)
    return items[-1] * len(items)


def ordered(x: Any, step: Callable[..., Any]) -> Any:
    items = [x, x * -2]
    step(order, items)
    return items[0] - 3 * items[1]


def dropped(x: Any, step: Callable[..., Any]) -> Any:
    items = [x, x * -2]
    step(drop, items, x)
    return items[0] + len(items)


def noted(x: Any, step: Callable[..., Any]) -> Any:
    seen = {"first": x}
    step(note, seen, x)
    return seen["late"] if "late" in seen else seen["first"]


def replaced(x: Any, step: Callable[..., Any]) -> Any:
    items = [2.0, x]
    step(replace, items, x)
    return items[1] * items[0]


def filled_inside(x: Any, step: Callable[..., Any]) -> Any:
    pair = [x, [x]]
    step(fill_inside, pair, x)
    return pair[1][-1] + len(pair[1])


@pytest.mark.parametrize(
    "body", [filled, ordered, dropped, noted, replaced, filled_inside], ids=lambda b: b.__name__
)
@pytest.mark.parametrize("first", [1.0, -1.0])
def test_container_that_a_step_changes_follows_the_values_of_each_call(
    body: Callable[..., Any], first: float
) -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            return body(x, call)

    net = Net()
    for sign in (first, -first, first, -first):
        x = torch.full((3,), sign)
        assert torch.equal(net(x), body(x, run))


def test_side_exit_after_a_step_that_fills_runs_the_step_once() -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            items = [x]
            call(draw, items, x)
            y = items[-1]
            if y.through(lambda each: bool(each.sum() > 10)):
                return y * 2 + len(items)
            return y * 3 + len(items)

    net = Net()
    for value in (1.0, 5.0, 1.0, 7.0):
        torch.manual_seed(0)
        NOTED.clear()
        x = torch.full((3,), value)
        found, drawn = net(x), torch.rand(1)
        assert len(NOTED) == 1
        torch.manual_seed(0)
        y = x + torch.rand(3)
        assert torch.equal(found, y * (2 if y.sum() > 10 else 3) + 2)
        assert torch.equal(drawn, torch.rand(1))


def test_step_that_changes_a_global_list_keeps_its_plan() -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            items = [x]
            call(draw, items, x)
            return items[-1]

    net = Net()
    for _ in range(4):
        net(torch.ones(3))
    assert sum(len(plans.programs) for plans in net._flodl_plans.values()) == 1


def test_list_that_random_shuffles_is_shuffled_in_every_call() -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            items = [x, x * 2, x * 3, x * 4]
            call(random.shuffle, items)
            return items[0] - items[1]

    net, x = Net(), torch.ones(2)
    for seed in range(8):
        random.seed(seed)
        found = net(x)
        random.seed(seed)
        items = [x, x * 2, x * 3, x * 4]
        random.shuffle(items)
        assert torch.equal(found, items[0] - items[1])


def test_step_that_changes_no_container_has_no_guard() -> None:
    def joined(items: list[Any]) -> Any:
        return torch.cat(items)

    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            return call(joined, [x, x + 1])

    net = Net()
    net(torch.ones(2))
    (plans,) = (each for each in net._flodl_plans.values() if each.programs)
    assert not any("arrangement" in node.target for node in plans.programs[0].spec.nodes)
