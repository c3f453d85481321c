"""FlowModule: what is recorded, in which order, and what flows through it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Cat, Flow, FlowModule, call, subflow

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("last", [False, True])
def test_using_merges_the_value_with_tagged_ones(last):
    class Net(FlowModule):
        def flow(self, x):
            y = x.through(torch.sin).tag("low").through(torch.cos).tag("high").through(torch.exp)
            return y.using("high", "low").merge(Cat(dim=1), last=last)

    x = torch.randn(2, 3)
    low = torch.sin(x)
    high = torch.cos(low)
    tagged = [high, low]
    wanted = [*tagged, high.exp()] if last else [high.exp(), *tagged]
    assert torch.equal(Net()(x), torch.cat(wanted, dim=1))


def test_using_hands_over_tagged_values():
    class Uses(FlowModule):
        def __init__(self):
            super().__init__()
            self.bilinear = nn.Bilinear(4, 4, 4)

        def flow(self, x):
            x.tag("start")
            return x.through(torch.relu).using("start").through(self.bilinear)

    module, x = Uses(), torch.randn(2, 4)
    for _ in range(2):
        assert torch.equal(module(x), module.bilinear(torch.relu(x), x))


def test_description_has_no_side_effects(capsys):
    class Prints(FlowModule):
        def flow(self, x):
            print("hello")  # noqa: T201  # a user's flow
            return x * 2

    module = Prints()
    assert capsys.readouterr().out == ""
    module(torch.ones(2))
    assert capsys.readouterr().out == "hello\n"


def test_draws_happen_once_per_call_in_source_order():
    class Noisy(FlowModule):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def flow(self, x):
            a = torch.randn(x.size(0), 1)
            b = x.through(self.drop)
            return a * b + torch.rand_like(x)

    def plain(x, drop):
        a = torch.randn(x.size(0), 1)
        return a * drop(x) + torch.rand_like(x)

    module, x = Noisy(), torch.randn(3, 4)
    for seed in range(3):
        torch.manual_seed(seed)
        found, state = module(x), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(found, plain(x, module.drop))
        assert torch.equal(state, torch.get_rng_state())


def test_in_place_effects_on_inputs_are_kept():
    class Writes(FlowModule):
        def flow(self, x):
            view = x[:, :2]
            view += 1
            x[0] = 0
            return view

    module = Writes()
    for _ in range(2):
        x = torch.ones(2, 3)
        result = module(x)
        assert torch.equal(x, torch.tensor([[0.0, 0, 0], [2, 2, 1]]))
        assert result.data_ptr() == x.data_ptr()


def test_inputs_may_be_nests_and_objects():
    @dataclass
    class Batch:
        x: torch.Tensor
        scale: float

    class Nest(FlowModule):
        def flow(self, items, table, batch):
            total = items[0]
            for item in items[1:]:
                total = total + item
            return {"sum": total, "scaled": table["w"] * batch.x * batch.scale}

    module = Nest()
    for count in (2, 3, 2):
        items = [torch.randn(2) for _ in range(count)]
        w, x = torch.randn(2), torch.randn(2)
        found = module(items, {"w": w}, Batch(x, 3.0))
        assert torch.equal(found["sum"], sum(items[1:], items[0]))
        assert torch.equal(found["scaled"], w * x * 3.0)


def test_dataclass_outputs():
    @dataclass
    class Out:
        logits: torch.Tensor
        hidden: list[torch.Tensor] | None = None

    class Makes(FlowModule):
        def flow(self, x):
            return Out(logits=x * 2, hidden=[x + 1])

    module, x = Makes(), torch.randn(2)
    for _ in range(3):
        found = module(x)
        assert isinstance(found, Out)
        assert torch.equal(found.logits, x * 2)
        assert torch.equal(found.hidden[0], x + 1)


def test_subclass_overrides_flow_and_super_flow_records():
    class Base(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            return x.through(self.fc)

    class Child(Base):
        def flow(self, x):
            return super().flow(x) * 3

    class Kept(Base):
        def forward(self, x):
            return super().forward(x) - 1

    x = torch.randn(2, 4)
    for _ in range(2):
        child, kept = Child(), Kept()
        assert torch.equal(child(x), child.fc(x) * 3)
        assert torch.equal(kept(x), kept.fc(x) - 1)


def test_subflow_computes_outside_and_records_inside():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        @subflow
        def features(self, x, scale=1.0):
            """Compute features."""
            return x.through(self.body).through(torch.relu) * scale

        def flow(self, x):
            return self.features(x, scale=2.0).through(self.head)

    net, x = Net(), torch.randn(2, 4)
    for _ in range(2):
        assert torch.equal(net.features(x), torch.relu(net.body(x)) * 1.0)
        assert torch.equal(net(x), net.head(torch.relu(net.body(x)) * 2.0))
    assert net.features.__doc__ == "Compute features."


def test_a_module_called_in_a_flow_is_a_node():
    class Direct(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            return self.fc(x) + call(torch.sum, input=x)

    module, x = Direct(), torch.randn(2, 4)
    assert torch.equal(module(x), module.fc(x) + x.sum())
    assert 'run(m["fc"], x)' in module.code
    module.fc.register_forward_hook(lambda *_: torch.zeros(2, 4))
    assert torch.equal(module(x), torch.zeros(2, 4) + x.sum())


def test_cat_of_branches_equals_torch_cat():
    class Cats(FlowModule):
        def flow(self, x):
            a, b = x.split(torch.relu, torch.tanh)
            return x.split(torch.relu, torch.tanh).merge(Cat(dim=1)) + torch.cat([a, b], 1)

    x = torch.randn(2, 3)
    both = torch.cat([torch.relu(x), torch.tanh(x)], 1)
    assert torch.equal(Cats()(x), both + both)


def test_parameter_lists_and_dicts_are_read_live():
    class Lists(FlowModule):
        def __init__(self):
            super().__init__()
            self.items = nn.ParameterList([nn.Parameter(torch.randn(2)) for _ in range(2)])
            self.table = nn.ParameterDict({"w": nn.Parameter(torch.randn(2))})

        def flow(self, x):
            return x * self.items[0] + self.items[1] * self.table["w"]

    module, x = Lists(), torch.randn(3, 2)
    for _ in range(2):
        with torch.no_grad():
            module.items[0].mul_(2)
        expected = x * module.items[0] + module.items[1] * module.table["w"]
        assert torch.equal(module(x), expected)


def test_modules_made_in_a_flow_may_hold_symbolic_sizes():
    class Resizes(FlowModule):
        def flow(self, x, y):
            y = nn.Upsample(size=x.size()[2:], mode="bilinear")(y)
            return x.through(nn.Softmax(dim=1)) + y

    module = Resizes()
    for side in (4, 6):
        x, y = torch.randn(1, 2, side, side), torch.randn(1, 2, 3, 3)
        expected = x.softmax(1) + F.interpolate(y, size=(side, side), mode="bilinear")
        for _ in range(2):
            assert torch.equal(module(x, y), expected)


def test_containers_of_inputs_go_through_stages():
    class Sum(nn.Module):
        def forward(self, items, scale=1.0):
            return sum(items[1:], items[0]) * scale

    class Whole(FlowModule):
        def __init__(self):
            super().__init__()
            self.sum = Sum()

        def flow(self, items, pair, table):
            total = items.through(self.sum, scale=2.0) + pair.through(self.sum)
            return total + table.through(lambda values: values["w"])

    module = Whole()
    for count in (2, 3, 2):
        items = [torch.randn(2) for _ in range(count)]
        pair, w = (torch.randn(2), torch.randn(2)), torch.randn(2)
        for _ in range(2):
            expected = sum(items[1:], items[0]) * 2.0 + (pair[0] + pair[1]) + w
            torch.testing.assert_close(module(items, pair, {"w": w}), expected)


def test_of_two_paths_the_first_one_decides_about_the_memory_format():
    def columns(x):
        return x.mT.contiguous().mT

    class Net(FlowModule):
        def flow(self, x):
            return x.also_with(main=columns, skip=torch.sin), x.also_with(torch.sin, columns)

    x = torch.randn(2, 3)
    first, second = Net()(x)
    assert (first.stride(), second.stride()) == ((1, 2), (3, 1))
    assert torch.equal(first, second)


class Named(nn.Module):
    """Its parameters are called like those of the flow words."""

    def forward(self, x, stage=1, function=1, module=1):
        return x * stage * function + module

    def scale(self, x, owner=1):
        return x * owner


@pytest.mark.parametrize("name", ["stage", "function", "module"])
def test_step_with_argument_named_like_ours_reaches_the_stage(name):
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.layer = Named()

        def flow(self, x):
            given = {name: 3}
            y = x.through(self.layer, **given) + call(self.layer, x, **given)
            return y + self.layer(x, **given)

    module, x = Net(), torch.randn(2, 3)
    for _ in range(2):
        assert torch.equal(module(x), module.layer(x, **{name: 3}) * 3)


def test_method_of_an_input_with_an_argument_named_owner_is_called():
    class Net(FlowModule):
        def flow(self, x, scaler):
            return scaler.scale(x, owner=3)

    class Scaler:
        scale = Named.scale

    module, x = Net(), torch.randn(2, 3)
    for _ in range(2):
        assert torch.equal(module(x, Scaler()), x * 3)


def test_bound_method_of_a_buffer_is_called_on_the_buffer_of_the_call():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(6.0))

        def flow(self, x):
            view = self.table.view
            return x + call(self.table.reshape, x.size(0), -1) + call(view, 2, 3)

    module, x = Net(), torch.randn(2, 3)
    module(x)
    module.load_state_dict({"table": torch.ones(6)}, assign=True)
    assert torch.equal(module(x), x + 1 + 1)
    module.double()
    assert module(x.double()).dtype is torch.float64


def test_class_of_a_layer_that_is_called_without_values_is_constructed_in_every_call():
    class Net(FlowModule):
        def flow(self, x):
            layer = call(nn.Linear, 3, 2)
            return x.through(layer), layer

    module, x = Net(), torch.randn(2, 3)
    made = [module(x)[1] for _ in range(3)]
    assert len({id(each) for each in made}) == 3


def parts_of(x, count):
    return (row * torch.rand(1) for row in x[:count])


def test_iterator_of_a_step_gives_its_items_one_by_one_in_every_call():
    class Net(FlowModule):
        def flow(self, x, count):
            total = x.sum() * 0
            for part in call(parts_of, x, count):
                total = total + part.sum() * torch.rand(1)
            return total + sum(part.sum() for part in list(call(parts_of, x, count)))

    def plain(x, count):
        total = x.sum() * 0
        for part in parts_of(x, count):
            total = total + part.sum() * torch.rand(1)
        return total + sum(part.sum() for part in list(parts_of(x, count)))

    module, x = Net(), torch.randn(4, 3)
    for count in (2, 2, 0, 3, 2):
        torch.manual_seed(count)
        wanted = plain(x, count)
        torch.manual_seed(count)
        assert torch.equal(module(x, count), wanted)


def test_truth_of_an_input_of_one_element_is_asked_in_every_call():
    class Net(FlowModule):
        def flow(self, x, flag=None):
            return x * 2 if flag is not None and flag else x

    module, x = Net(), torch.ones(2)
    answers = [module(x, flag)[0].item() for flag in (torch.ones(1, 1), torch.zeros(1, 1), None)]
    assert answers == [2, 1, 1]


class Filling(nn.Module):
    def forward(self, x, seen):
        seen.append(len(seen))
        return x * len(seen)


def test_module_that_fills_a_list_of_the_owner_gets_that_list_in_every_call():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.layer = Filling()
            self.seen = [7]

        def flow(self, x):
            return x.through(self.layer, self.seen)

    module, x = Net(), torch.ones(2)
    assert [module(x)[0].item() for _ in range(3)] == [2, 3, 4]
    assert module.seen == [7, 1, 2, 3]


def test_misspelt_flow_word_names_the_word():
    class Misspelt(FlowModule):
        def flow(self, x: Flow) -> Flow:
            return x.trough(torch.relu)

    with pytest.raises(
        AttributeError, match="no attribute 'trough'; did you mean the flow word `through`"
    ):
        Misspelt()(torch.ones(2))


@pytest.mark.parametrize("called", [False, True])
def test_str_of_a_flow_module_is_its_repr(called):
    class Named(FlowModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def flow(self, x: Flow) -> Flow:
            return x.through(self.linear)

        def __repr__(self) -> str:
            return "Named(2, 2)"

    class Layered(nn.Sequential, FlowModule):
        pass

    model, layers = Named(), Layered(nn.ReLU())
    if called:
        model(torch.ones(1, 2)), layers(torch.ones(1, 2))
    assert str(model) == repr(model) == f"{model}" == "Named(2, 2)"
    assert str(layers) == repr(layers) == f"Layered{str(nn.Sequential(nn.ReLU()))[10:]}"
