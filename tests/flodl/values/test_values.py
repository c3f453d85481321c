"""Values by name: kept and replaced ones are those of an edited forward, bit for bit."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import Flow, FlowBuilder, FlowModule
from flodl.errors import GraphError, NotRecordedError, UnknownNameError

pytestmark = pytest.mark.torch


class Attention(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.2)

    def flow(self, x: Flow) -> Flow:
        q, k, v = x.through(self.qkv).chunk(3, dim=-1)
        att = (q @ k.transpose(-2, -1)).softmax(-1)
        att = att.through(self.drop)
        return att @ v


class Block(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU())

    def flow(self, x: Flow) -> Flow:
        x = x + x.through(self.norm).through(self.attn)
        h = x.through(self.mlp)
        if x.size(0) > 2:
            h = h * 2
        return x + h


class Net(FlowModule):
    def __init__(self, width=4, depth=2):
        super().__init__()
        self.h = nn.ModuleList(Block(width) for _ in range(depth))
        self.stat = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 2)

    def flow(self, x: Flow) -> Flow:
        for block in self.h:
            x = x.through(block)
        pooled = x.mean(1).through(self.stat)
        logits = pooled.through(self.head)
        return logits  # noqa: RET504 - the name is what is tested


def edited(net, x, change=lambda name, value: value):
    """Compute what `Net` does, in plain Python, and hand each value to `change`."""

    def see(name, value):
        return change(name, value)

    for i, block in enumerate(net.h):
        n = F.layer_norm(x, x.shape[-1:], block.norm.weight, block.norm.bias)
        q, k, v = F.linear(n, block.attn.qkv.weight, block.attn.qkv.bias).chunk(3, dim=-1)
        att = see(f"h.{i}.attn.att[0]", (q @ k.transpose(-2, -1)).softmax(-1))
        att = see(f"h.{i}.attn.att", F.dropout(att, 0.2, net.training))
        x = see(f"h.{i}.x", x + att @ v)
        h = see(f"h.{i}.h[0]", F.gelu(F.linear(x, block.mlp[0].weight, block.mlp[0].bias)))
        if x.size(0) > 2:
            h = h * 2
        x = see(f"h.{i}", x + h)
    s = net.stat
    m = F.batch_norm(
        x.mean(1), s.running_mean, s.running_var, s.weight, s.bias, net.training, s.momentum, s.eps
    )
    if net.training:
        s.num_batches_tracked += 1
    m = see("pooled", m)
    return see("logits", F.linear(m, net.head.weight, net.head.bias))


NAMES = ["h.*.attn.att[0]", "h.*.attn.att", "h.*.x", "h.*.h[0]", "h.*", "pooled", "logits"]


def twins(training=False):
    torch.manual_seed(0)
    net = Net().train(training)
    return net, copy.deepcopy(net)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("batch", [2, 3])
def test_captured_values_are_those_of_an_edited_forward(training, called, batch):
    net, twin = twins(training)
    x, expected = torch.randn(batch, 3, 4), {}
    if called:
        net(torch.randn(5, 3, 4))
        edited(twin, torch.randn(5, 3, 4))
        twin.load_state_dict(net.state_dict())

    def keep(name, value):
        value.retain_grad()
        expected[name] = value
        return value

    torch.manual_seed(7)
    wanted = edited(twin, x, keep)
    torch.manual_seed(7)
    found, cache = flodl.view(net).run_with_cache(x, names=tuple(NAMES))
    assert torch.equal(found, wanted)
    assert expected.keys() <= cache.keys()
    for value in cache.values():
        value.retain_grad()
    found.sum().backward()
    wanted.sum().backward()
    for name, value in expected.items():
        assert torch.equal(cache[name], value), name
        assert torch.equal(cache[name].grad, value.grad), name
    for (name, one), other in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad), name
    for one, other in zip(net.buffers(), twin.buffers(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["h.0.attn.att[0]", "h.1.attn.att", "h.0.x", "h.1", "pooled"])
@pytest.mark.parametrize("called", [False, True])
def test_replaced_values_are_those_of_an_edited_forward(name, called):
    net, twin = twins()
    x = torch.randn(3, 3, 4)
    if called:
        net(x)
    factor = torch.tensor(0.5, requires_grad=True)
    wanted = edited(twin, x, lambda n, value: value * factor if n == name else value)
    (expected,) = torch.autograd.grad(wanted.sum(), factor)
    with flodl.view(net).intervene({name: lambda value: value * factor}):
        found = net(x)
    assert torch.equal(found, wanted)
    assert torch.equal(*torch.autograd.grad(found.sum(), factor), expected)
    assert torch.equal(net(x), edited(twin, x))


def test_value_of_another_run_is_patched_in():
    net, twin = twins()
    clean, other = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    view = flodl.view(net)
    _, cache = view.run_with_cache(clean, names="h.0.attn.att")
    with view.intervene({"h.0.attn.att": cache["h.0.attn.att"]}):
        patched = net(other)
    kept = {}
    edited(twin, clean, kept.setdefault)
    change = {"h.0.attn.att": kept["h.0.attn.att"]}
    assert torch.equal(patched, edited(twin, other, change.get))
    assert not torch.equal(patched, net(other))


def test_names_are_the_authors():
    net = Net()
    view = flodl.view(net)
    with pytest.raises(NotRecordedError, match="call the model once, or give example inputs"):
        view.names()
    found = {each.name: each for each in view.names("**", torch.randn(3, 3, 4))}
    assert {"h.0", "h.1.attn", "head", "logits", "h.0.attn.q", "h.0.attn.att[1]"} <= found.keys()
    assert "h" not in found  # a list of modules is never called
    assert found["h.1.attn.att"].shape == "3x3x3 float32"
    assert found["h.1.attn.att"].line.partition(":")[0].endswith("test_values.py")
    assert (found["h.0"].kind, found["logits"].kind) == ("output", "value")
    assert [each.name for each in view.names("h.*.attn")] == ["h.0.attn", "h.1.attn"]
    assert [each.name for each in view.names("x[*]")] == ["x[0]", "x[1]", "x[2]"]
    assert view.names("nothing.*") == ()


class Doubled(FlowModule):
    def flow(self, x):
        return x.through(torch.relu) * 2


class Kept(Doubled):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


class Holding(FlowModule):
    def __init__(self):
        super().__init__()
        self.part = Kept()
        self.unused = Doubled()

    def flow(self, x):
        return x.through(self.part) + 1


def test_names_of_a_model_with_a_forward_below_a_flow_are_those_of_the_rest():
    net = Holding()
    net(-torch.ones(2))
    assert {"part", "part_1"} & {each.name for each in flodl.view(net).names()}


def test_plans_have_their_text_again_after_the_block():
    net = Net()
    x = torch.randn(2, 3, 4)
    net(x)
    before = [part.code for part in net.modules() if isinstance(part, FlowModule)]
    with flodl.view(net).capture("**"):
        net(x)
    assert [part.code for part in net.modules() if isinstance(part, FlowModule)] == before
    plans = [
        each for part in net.modules() for each in vars(part).get("_flodl_plans", {}).values()
    ]
    assert all(each.watch.values == () for each in plans)
    assert all("_see" not in program.code.source for each in plans for program in each.programs)
    assert not any(part._forward_hooks for part in net.modules())


def test_error_in_the_block_leaves_no_observer():
    net = Net()
    with pytest.raises(ZeroDivisionError), flodl.view(net).on("logits", lambda *_: 1 / 0):
        net(torch.randn(2, 3, 4))
    plans = [
        each for part in net.modules() for each in vars(part).get("_flodl_plans", {}).values()
    ]
    assert all(each.watch.values == () for each in plans)
    assert not any(part._forward_hooks for part in net.modules())
    net(torch.randn(2, 3, 4))


def test_first_call_under_observation_leaves_random_state_and_statistics():
    net, twin = twins(training=True)
    x = torch.randn(2, 3, 4)
    torch.manual_seed(3)
    flodl.view(net).run_with_cache(x)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    twin(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert net.stat.num_batches_tracked == 1
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), twin.buffers(), strict=True))


def test_way_that_was_not_recorded_is_seen_too():
    class Deciding(FlowModule):
        def flow(self, x: Flow) -> Flow:
            y = x * 2
            if (y.sum() > 0).through(bool):  # noqa: SIM108
                z = y + 1
            else:
                z = y - 1
            return z * 3

    net = Deciding()
    up, down = torch.ones(2), -torch.ones(2)
    net(up)
    view = flodl.view(net)
    for x, expected in ((down, -3.0), (up, 3.0), (down, -3.0)):
        out, cache = view.run_with_cache(x, names=("y", "z"))
        assert cache["z"].tolist() == [expected, expected]
        assert torch.equal(cache["y"], x * 2)
        assert torch.equal(out, cache["z"] * 3)
    # What replaces a value decides, too.
    with view.intervene({"y": torch.neg}):
        assert net(up).tolist() == [-9.0, -9.0]
        assert net(down).tolist() == [9.0, 9.0]


def test_blocks_lie_in_each_other_and_see_in_their_order():
    net = nn.Sequential(nn.Identity())
    view = flodl.view(net)
    with view.intervene({"0": lambda v: v + 1}), view.capture("0") as first:
        with view.intervene({"0": lambda v: v * 10}), view.capture("0") as second:
            assert net(torch.ones(1)).item() == 20
        assert net(torch.ones(1)).item() == 2
    assert [value.item() for value in first.every("0")] == [2, 2]
    assert [value.item() for value in second.every("0")] == [20]


def test_upto_every_value_gives_it_and_trains():
    net, twin = twins()
    x, expected = torch.randn(2, 3, 4), {}
    edited(twin, x, expected.setdefault)
    for name, value in expected.items():
        part = flodl.view(net).upto(name)
        assert torch.equal(part(x), value), name
    part = flodl.view(net).upto("h.0.x")
    part(x).sum().backward()
    assert net.h[0].attn.qkv.weight.grad is not None
    assert net.h[1].attn.qkv.weight.grad is None
    assert next(part.parameters()) is next(net.parameters())


def test_callback_gets_names_and_values():
    net = Net()
    seen = []
    with flodl.view(net).on("h.*.attn.att", lambda name, value: seen.append((name, value.shape))):
        net(torch.randn(2, 3, 4))
    assert seen == [(f"h.{i}.attn.att", torch.Size([2, 3, 3])) for i in range(2)]


def test_unknown_name_is_an_error_with_one_that_is_close():
    net = Net()
    view = flodl.view(net)
    net(torch.randn(2, 3, 4))
    for use in (
        view.capture("h.0.attn.at"),
        view.intervene({"h.0.attn.at": 0}),
        view.on("hh", print),
    ):
        with pytest.raises(UnknownNameError), use:
            pass
    with (
        pytest.raises(UnknownNameError, match=r"did you mean `h\.0\.attn\.att"),
        view.capture("h.0.attn.at"),
    ):
        pass
    with pytest.raises(UnknownNameError):
        view.upto("h.7.x")
    _, cache = view.run_with_cache(torch.randn(2, 3, 4), names="h.0")
    with pytest.raises(UnknownNameError, match=r"did you mean `h\.0`"):
        cache["h.1"]


def test_plain_module_has_the_outputs_of_its_parts():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(3, 4)
    view = flodl.view(net)
    assert [each.name for each in view.names()] == ["0", "1", "2"]
    expected = net(x)
    out, cache = view.run_with_cache(x)
    assert torch.equal(out, expected)
    assert torch.equal(cache["1"], F.relu(F.linear(x, net[0].weight, net[0].bias)))
    with view.intervene({"1": torch.zeros_like}):
        assert torch.equal(net(x), net[2].bias.expand(3, 2))


def test_graph_of_a_builder_has_names_too():
    graph = FlowBuilder.from_(nn.Linear(4, 4)).through(torch.relu).through(nn.Linear(4, 2)).build()
    x = torch.randn(3, 4)
    expected = graph(x)
    name = next(each.name for each in graph.names() if "relu" in each.name)
    with graph.intervene({name: torch.zeros_like}):
        assert not torch.equal(graph(x), expected)
    assert torch.equal(graph(x), expected)


def test_shared_module_has_all_its_values():
    class Twice(FlowModule):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 3)

        def flow(self, x: Flow) -> Flow:
            return x.through(self.lin).through(self.lin)

    net, x = Twice(), torch.randn(2, 3)
    out, cache = flodl.view(net).run_with_cache(x, names="lin")
    first, last = cache.every("lin")
    assert torch.equal(first, F.linear(x, net.lin.weight, net.lin.bias))
    assert torch.equal(last, out)
    assert cache["lin"] is last


def test_tags_and_times_go_on_in_the_block():
    class Tagged(FlowModule):
        def flow(self, x: Flow) -> Flow:
            y = (x * 2).tag("double")
            return y + 1

    net = Tagged()
    view = flodl.view(net)
    view.enable_profiling()
    with view.capture("double", "x") as cache:
        net(torch.ones(2))
    assert cache["double"].tolist() == [2, 2]
    assert cache["x"].tolist() == [1, 1]
    assert view.tagged("double").tolist() == [2, 2]
    assert view.profile() is not None


def test_copies_and_pickles_made_in_the_block_are_not_observed():
    net = nn.Sequential(nn.Identity())
    with flodl.view(net).capture("0") as cache:
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            other(torch.ones(1))
    assert len(cache) == 0


def test_value_that_nothing_reads_is_seen():
    class Unread(FlowModule):
        def flow(self, x: Flow) -> Flow:
            low, high = x.chunk(2)  # noqa: RUF059
            return low * 2

    net = Unread()
    _, cache = flodl.view(net).run_with_cache(torch.arange(4.0), names=("low", "high"))
    assert cache["high"].tolist() == [2, 3]
    with flodl.view(net).intervene({"low": cache["high"]}):
        assert net(torch.arange(4.0)).tolist() == [4, 6]


class Shifting:
    """A setting whose copies have another value."""

    def __init__(self, value):
        self.value = value

    def __deepcopy__(self, memo):
        return Shifting(self.value + 1)


class Shifted(FlowModule):
    def __init__(self):
        super().__init__()
        self.setting = Shifting(2)

    def flow(self, x):
        if x.shape[0] > 1 and self.setting.value == 2:  # a shape is known in a call only
            return x.through(torch.tanh)
        return x.through(torch.relu)


def test_capture_of_a_module_whose_copies_differ_says_so():
    net = Shifted()
    with flodl.view(net).capture("**"), pytest.raises(GraphError, match="a copy of Shifted takes"):
        net(torch.ones(2))


class Halving(FlowModule):
    """Calls itself with inputs of another shape, which need another plan."""

    def flow(self, x):
        return self(x[: x.shape[0] // 2]).through(torch.tanh) if x.shape[0] > 1 else x + 1


def test_capture_of_a_module_that_calls_itself_records_each_call():
    net, x = Halving(), torch.ones(4)
    with flodl.view(net).capture("**") as cache:
        found = net(x)
    assert torch.equal(found, Halving()(x))
    assert cache
