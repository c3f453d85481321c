"""Summaries of parts: equal to torch's counter, on ports as on the originals, and without a trace."""

import copy
import functools
import json
import time

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import flodl
from flodl import Flow, FlowBuilder, FlowModule

pytestmark = pytest.mark.torch


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.twice = nn.Linear(4, 4)
        self.spare = nn.Linear(9, 9)
        self.heads = nn.ModuleList(nn.Linear(4, n) for n in (2, 3))


class Plain(Layers):
    def forward(self, x):
        x = self.twice(self.twice(self.norm(self.conv(x)).mean((2, 3))))
        return {"out": [head(x) for head in self.heads], "size": x.shape[0]}


class Ported(Layers, FlowModule):
    def flow(self, x: Flow):
        x = self.twice(self.twice(self.norm(self.conv(x)).mean((2, 3))))
        return {"out": [head(x) for head in self.heads], "size": x.shape[0]}


X = torch.ones(2, 3, 5, 5)


@pytest.mark.parametrize("kind", [Plain, Ported])
def test_summary_of_parts_has_the_counts_of_torch(kind):
    model = kind()
    found = flodl.view(model).summary(X)
    with FlopCounterMode(display=False) as counter:
        Plain()(X)
    flops = {
        name.removeprefix("Plain").removeprefix("."): sum(operations.values())
        for name, operations in counter.get_flop_counts().items()
        if name != "Global"
    }
    assert {part.path: 2 * part.macs for part in found.parts if part.macs} == flops
    assert found.macs == counter.get_total_flops() // 2 > 0
    assert found.parameters == sum(each.numel() for each in model.parameters())
    by_path = {part.path: part for part in found.parts}
    assert by_path["twice"].calls == 2
    assert by_path["spare"].calls == 0
    assert by_path[""].shapes == ((2, 2), (2, 3))
    assert by_path["conv"].shapes == ((2, 4, 5, 5),)
    assert by_path["conv"].dtypes == ("float32",)


def test_summary_leaves_the_model_and_the_random_state_as_they_were():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    flodl.view(model).summary(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert not model[0]._forward_hooks
    assert all(each.grad is None for each in model.parameters())


def test_summary_with_a_depth_lists_that_many_levels():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    view = flodl.view(model)
    paths = [
        [part.path for part in view.summary(torch.ones(1, 2), depth=depth).parts]
        for depth in (0, 1, None)
    ]
    assert paths == [[""], ["", "0", "1"], ["", "0", "1", "1.0", "1.1"]]


def test_summary_of_a_graph_counts_frozen_parameters_and_is_json():
    graph = FlowBuilder.from_(nn.Linear(4, 8)).tag("hidden").through(nn.Linear(8, 2)).build()
    first = test_summary_of_a_graph_counts_frozen_parameters_and_is_json.__code__.co_firstlineno
    graph.freeze("hidden")
    found = graph.summary(torch.ones(3, 4))
    document = json.loads(found.to_json())
    assert set(document) == {"parts", "values"}
    assert [part["path"] for part in document["parts"]] == ["", "hidden", "linear_1"]
    assert document["values"][0] == {
        "name": "hidden", "kind": "output", "line": f"{__file__}:{first + 1}", "calls": 1,
        "shapes": [[3, 8]], "dtypes": ["float32"], "bytes": 96,
    }  # fmt: skip
    assert [(part.parameters, part.trainable) for part in found.parts] == [
        (58, 18), (40, 0), (18, 18)
    ]  # fmt: skip
    row = ["model", "Graph", "3x2", "float32", "24", "58", "232", "144"]
    assert str(found).splitlines()[1].split() == row


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        lin = nn.Linear(4, 4)
        self.a, self.b = nn.Sequential(lin), nn.Sequential(lin)

    def forward(self, x):
        return self.b(self.a(x))


def test_summary_of_a_shared_layer_counts_the_calls_by_every_path():
    parts = {part.path: part for part in flodl.view(Shared()).summary(torch.ones(2, 4)).parts}
    assert list(parts) == ["", "a", "a.0", "b"]
    assert (parts["a.0"].calls, parts["a.0"].macs) == (2, 64)
    assert (parts["a"].macs, parts["b"].macs, parts[""].macs) == (32, 32, 64)


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.mul_(2))
        return torch.cat(self.seen)


def test_summary_runs_the_copy_once_and_keeps_the_inputs():
    model, x = Growing(), torch.ones(2, 4, requires_grad=True) * 1  # no leaf: deepcopy refuses it
    found = flodl.view(model).summary(x)
    assert found.parts[0].shapes == ((2, 4),)
    assert model.seen == []
    assert torch.equal(x, torch.ones(2, 4))


def test_summary_of_a_loop_counts_every_turn():
    class Loop(FlowModule):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def flow(self, x: Flow):
            while (x.sum() < 100).through(bool):
                x = self.lin(x).abs() + x + 10
            return x

    part = flodl.view(Loop()).summary(torch.ones(1, 4)).parts[1]
    assert part.calls > 1
    assert part.macs == 16 * part.calls


@pytest.mark.parametrize("was_called", [False, True])
@pytest.mark.parametrize("kind", [Plain, Ported])
def test_summary_of_values_has_the_bytes_of_the_cache(kind, was_called):
    model = kind().double()
    x = X.double()
    if was_called:
        model(x)
    found = flodl.view(model).summary(x)
    _, cache = flodl.view(model).run_with_cache(x)
    names = [each.name for each in flodl.view(model).names()]
    assert [each.name for each in found.values] == names
    assert ("x" in names) == (kind is Ported)
    for each in found.values:
        seen = cache.every(each.name) if each.name in cache else ()
        assert each.calls == len(seen), each.name
        if seen and isinstance(seen[-1], torch.Tensor):
            assert each.bytes == seen[-1].nbytes
            assert (each.shapes, each.dtypes) == ((tuple(seen[-1].shape),), ("float64",))
    by_path = {part.path: part for part in found.parts}
    assert by_path["conv"].output_bytes == cache["conv"].nbytes
    assert by_path["heads.0"].parameter_bytes == 8 * (4 * 2 + 2)
    assert by_path["spare"].output_bytes == 0


def test_values_text_has_a_row_per_value_and_a_dash_for_none():
    found = flodl.view(Plain()).summary(X)
    lines = [line.split() for line in found.values_text.splitlines()]
    assert lines[0] == ["value", "shape", "dtype", "bytes"]
    assert ["conv", "2x4x5x5", "float32", "800"] in lines
    assert ["spare", "-", "0"] in lines


def test_summary_with_a_depth_lists_the_values_of_that_many_levels():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    view = flodl.view(model)
    names = [
        [each.name for each in view.summary(torch.ones(1, 2), depth=depth).values]
        for depth in (0, 1, None)
    ]
    assert names == [[], ["0", "1"], ["0", "1", "1.0", "1.1"]]


def test_summary_of_a_layer_alone_has_no_values():
    found = flodl.view(nn.Linear(2, 3)).summary(torch.ones(1, 2))
    assert found.values == ()
    assert found.values_text == "value  shape  dtype  bytes"
    assert found.parts[0].output_bytes == 12


def test_summary_of_a_new_way_sees_its_values_once():
    class Loop(FlowModule):
        def flow(self, x: Flow):
            while (x.sum() < 100).through(bool):
                y = x * 2
                x = y + 10
            return x

    found = {each.name: each for each in flodl.view(Loop()).summary(torch.ones(1, 4)).values}
    assert found["y[0]"].calls == found["y"].calls == 1


def test_summary_of_a_plan_with_objects_of_its_own_has_its_values():
    class Own(FlowModule):
        def __init__(self):
            super().__init__()
            self.add = functools.partial(torch.add, torch.ones(4))

        def flow(self, x: Flow):
            return x.through(self.add).tag("sum")

    found = {each.name: each for each in flodl.view(Own()).summary(torch.ones(2, 4)).values}
    assert (found["sum"].calls, found["sum"].bytes) == (1, 32)


def test_summary_with_inputs_that_do_not_fit_raises_as_the_call_does():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        flodl.view(nn.Linear(3, 3)).summary(torch.ones(2, 4))


class Branch(FlowModule):
    def __init__(self, width=256):
        super().__init__()
        self.body, self.up, self.down = (nn.Linear(width, width) for _ in range(3))

    def flow(self, x: Flow):
        x = x.through(self.body)
        if (x.sum() > 0).through(bool):
            return x.through(self.up)
        return x.through(self.down)


class Turns(FlowModule):
    def __init__(self, width=256):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def flow(self, x: Flow):
        while (x.sum() < 1e5).through(bool):
            x = x.through(self.lin).abs() + x + 2
        return x


@pytest.mark.parametrize("kind", [Branch, Turns])
@pytest.mark.parametrize("sign", [1, -1])
def test_summary_with_times_covers_the_forward_on_every_way(kind, sign):
    torch.manual_seed(0)
    model = kind()
    x = torch.ones(64, 256)
    with torch.no_grad():
        for each in (1, -1, 1):  # the way of `sign` leaves a plan by a side exit, or is the plan
            model(each * x)
        found = max(
            (flodl.view(model).summary(sign * x, timed=True) for _ in range(3)),
            key=lambda each: each.coverage.share,
        )
    assert 0.95 <= found.coverage.share <= 1
    parts = {part.path: part for part in found.parts}
    assert parts[""].seconds == found.coverage.total
    taken = [path for path, part in parts.items() if part.seconds is not None]
    assert taken == [path for path, part in parts.items() if part.calls]
    assert (
        sum(part.seconds for path, part in parts.items() if path in taken[1:]) < parts[""].seconds
    )
    lines = str(found).splitlines()
    assert lines[0].split()[-1] == "time"
    assert lines[-1] == f"the times cover {found.coverage}"
    assert json.loads(found.to_json())["coverage"]["total"] == found.coverage.total


def test_summary_with_times_of_a_plain_module_covers_its_submodules():
    class Sleeper(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Identity())
            self.spare = nn.Identity()

        def forward(self, x):
            time.sleep(0.04)
            return self.body(x)

    class Slow(nn.Module):
        def forward(self, x):
            time.sleep(0.03)
            return x

    model = Sleeper()
    model.body.append(nn.Sequential(Slow()))
    found = flodl.view(model).summary(torch.ones(2), timed=True)
    assert (
        0.03 / 0.07 * 0.7 < found.coverage.share < 0.03 / 0.07 * 1.3
    )  # what it does itself has no name
    seconds = {part.path: part.seconds for part in found.parts}
    assert seconds["spare"] is None
    assert 0.03 <= seconds["body.1.0"] <= seconds["body.1"] <= seconds["body"] < seconds[""]


def test_summary_of_a_flow_that_records_each_call_has_no_times():
    class Growing(FlowModule):
        def __init__(self):
            super().__init__()
            self.turns = 0

        def flow(self, x: Flow):
            self.turns += 1
            for _ in range(self.turns):
                x = x + 1
            return x

    found = flodl.view(Growing()).summary(torch.ones(2), timed=True)
    assert found.coverage is None
    assert found.parts[0].seconds is None
    assert str(found).splitlines()[-1].startswith("no times: ")
