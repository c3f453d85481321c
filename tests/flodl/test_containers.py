"""What a flow writes into the caller's containers, and containers that it stores, against plain modules."""

import copy

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule, call

pytestmark = pytest.mark.torch


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))


def pair(body):
    """Return a plain module and a flow module whose forward is the same function."""
    plain = type("Plain", (Layers,), {"forward": body})
    flow = type("Ported", (FlowModule,), {"__init__": init_of_flow, "flow": body})
    return plain(), flow()


def init_of_flow(self):
    FlowModule.__init__(self)
    torch.manual_seed(0)
    self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))


def same(one, other):
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other)


def test_items_that_are_set_reach_the_callers_dict():
    def body(self, batch):
        batch["h"] = self.layers[0](batch["x"])
        batch.update(y=torch.relu(batch["h"]))
        return batch

    plain, flow = pair(body)
    for size in (2, 2, 3):
        x = torch.randn(size, 4)
        ours, theirs = {"x": x}, {"x": x}
        assert flow(ours) is ours
        plain(theirs)
        assert same(ours, theirs)


def test_what_is_appended_reaches_the_callers_list():
    def body(self, xs):
        xs.append(self.layers[0](xs[0]))
        xs[0] = xs[-1] * 2
        return xs[-1]

    plain, flow = pair(body)
    for _ in range(3):
        x = torch.randn(2, 4)
        ours, theirs = [x], [x]
        assert torch.equal(flow(ours), plain(theirs))
        assert same(ours, theirs)


def changed_list(self, xs, ns):
    first = xs.pop(0)
    xs.extend(self.layers[0](x) for x in list(xs))
    xs.insert(1, first)
    xs += [torch.relu(first)]
    xs.reverse()
    n = ns.pop()
    del xs[0]
    ns.extend([n * 2, n])
    return xs[0] + n, n, len(xs), ns


def changed_dict(self, xs, table):
    mask, grey = table.pop("mask", None), table.pop("grey", 3)
    table.setdefault("y", self.layers[0](xs[0]))
    table |= {"z": grey}
    del table["x"]
    last = table.popitem()
    if mask is None:
        table.clear()
    return mask, grey, table, last


def changed_parts(self, xs, table):
    inner = table["parts"]
    del table["parts"]
    table["more"] = [1]
    inner.append(self.layers[0](xs[0]))
    return inner, xs.pop()


LIST = [torch.ones(1, 4), torch.zeros(1, 4)], [1, 2, 7]
TABLE = [torch.ones(1, 4)], {"x": torch.ones(1), "mask": torch.zeros(1)}
SMALL = [torch.ones(1, 4)], {"x": torch.ones(1)}
PARTS = [torch.ones(1, 4)], {"parts": [torch.ones(1)]}


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (changed_list, LIST),
        (changed_dict, TABLE),
        (changed_dict, SMALL),
        (changed_parts, PARTS),
    ],
    ids=["list", "dict", "cleared", "parts"],
)
def test_what_methods_change_reaches_the_callers_container(body, given):
    plain, flow = pair(body)
    for _ in range(3):
        ours, theirs = copy.deepcopy(given), copy.deepcopy(given)
        assert repr(flow(*ours)) == repr(plain(*theirs))
        assert repr(ours) == repr(theirs)


def test_sorting_an_input_is_refused_with_a_way_out():
    def body(self, batch):
        batch.sort()
        return batch

    _, flow = pair(body)
    with pytest.raises(
        FlowError, match=r"changes the list that the caller passed as `batch`.*copy"
    ):
        flow([torch.ones(1, 4)])


def test_a_copy_may_change():
    def body(self, batch):
        mine = dict(batch)
        mine.pop("mask")
        return mine

    _, flow = pair(body)
    given = {"x": torch.ones(1), "mask": torch.zeros(1)}
    assert list(flow(given)) == ["x"]
    assert list(flow(given)) == ["x"]
    assert list(given) == ["x", "mask"]


def test_a_stored_list_is_filled_in_every_call():
    def body(self, x):
        self.seen = []
        for layer in self.layers:
            x = layer(x)
            self.seen.append(x)
        return torch.stack(self.seen).sum(0)

    plain, flow = pair(body)
    for _ in range(3):
        x = torch.randn(2, 4)
        assert torch.equal(flow(x), plain(x))
        assert same(flow.seen, plain.seen)


def test_a_stored_list_that_changes_under_another_name_is_refused():
    def body(self, x):
        found = []
        self.seen = found
        found.append(self.layers[0](x))
        return x

    _, flow = pair(body)
    with pytest.raises(FlowError, match=r"stored as `self\.seen` is changed afterwards"):
        flow(torch.ones(1, 4))


class Filling(nn.Module):
    """As layers that add their outputs to a list, or a table, of their caller's."""

    def forward(self, xs, x, table=None):
        xs.append(x + 1)
        xs.pop(0)
        if table is not None:
            table["new"] = x * 3
            table.pop("old", None)
        return x


class Emptying(nn.Module):
    """As decoders that take the outputs of an encoder one by one."""

    def forward(self, xs):
        total = xs.pop()
        while xs:
            total = total + xs.pop() * 2
        return total


def add_twice(found, x):
    found.append(x)
    found.append(x * 2)


def filled(self, x):
    xs = [x, x * 2]
    y = self.layers[0](xs, x)
    return xs, y, len(xs), xs[-1]


def filled_by_name(self, x):
    xs, table = [x], {"old": x}
    y = self.layers[0](xs, x, table=table)
    return xs, y, table, list(table)


def emptied(self, x):
    xs = [x, x + 1, x + 2]
    return self.layers[1](xs), len(xs)


def filled_by_function(self, x):
    found = []
    for scale in range(2):
        call(add_twice, found, x * scale)
    return found, torch.stack(found)


def filled_for_the_caller(self, x):
    self.layers[0](x, x[0])
    return x[-1], self.layers[1](x), len(x)


@pytest.mark.parametrize(
    "body", [filled, filled_by_name, emptied, filled_by_function, filled_for_the_caller]
)
def test_what_a_step_does_to_a_container_of_the_flow_is_seen(body):
    plain, flow = pair(body)
    plain.layers = flow.layers = nn.ModuleList([Filling(), Emptying()])
    for size in (2, 2, 3):
        x = torch.randn(size, 4)
        ours, theirs = ([x, x + 1], [x, x + 1]) if body is filled_for_the_caller else (x, x)
        assert repr(flow(ours)) == repr(plain(theirs))
        assert repr(ours) == repr(theirs)


def change_parts(groups):
    groups[0].append(groups[1]["a"] + 1)
    groups[1]["a"] = groups[0][0] * 5
    return groups


def test_what_a_step_does_to_containers_inside_is_seen():
    def body(self, x):
        groups = [[x], {"a": x * 2}, [x]]
        first = groups[0]
        again = call(change_parts, groups)
        return groups, first, again, len(first)

    plain, flow = pair(body)
    for size in (2, 2, 3):
        x = torch.randn(size, 4)
        assert repr(flow(x)) == repr(plain(x))


def test_a_step_that_changes_a_container_inside_of_the_callers_is_an_error():
    def body(self, groups):
        call(lambda all_of_them: all_of_them[0].append(1), groups)
        return groups

    _, flow = pair(body)
    with pytest.raises(FlowError, match="changes a container inside of a list"):
        flow([[torch.ones(1, 4)]])
