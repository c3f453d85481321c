"""A tool that traces modules may be the first caller of a flow, and sees what it sees in the original."""

from __future__ import annotations

import functools
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Cat, FlowModule, on_forward, subflow, view

pytestmark = [
    pytest.mark.torch,
    # torch calls torch.jit.trace deprecated, in another way in each version.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning"
    ),
]


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = x * x.size(0)
        return self.drop(self.fc2(x))


class MlpFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)
        self.drop = nn.Dropout(0.5)

    def flow(self, x):
        x = x.through(self.fc1).through(torch.relu)
        x = x * x.size(0)
        return x.through((self.fc2, self.drop))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(self.stem(x))
        for layer in self.layers:
            x = x + F.relu(layer(x))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.head(x.view(x.size(0), -1))


class ConvFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def flow(self, x):
        x = x.through(self.stem).through(self.norm)
        for layer in self.layers:
            x = x.also((layer, F.relu))
        x = x.through(F.adaptive_avg_pool2d, 1)
        return x.view(x.size(0), -1).through(self.head)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(8, dim=2)
        q, k, v = (t.view(batch, length, 2, 4).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(4), -1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(y)


class AttentionFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def flow(self, x):
        batch, length, width = x.shape
        q, k, v = x.through(self.qkv).split(8, dim=2)
        q, k, v = (t.view(batch, length, 2, 4).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(4), -1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x.also(y.through(self.out))


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x) if x.size(0) > 2 else self.b(x)
        while x.size(-1) > 1:
            x = x[..., 1:]
        return x.exp()


class SizedFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def flow(self, x):
        x = x.through(self.a) if (x.size(0) > 2).through(bool) else x.through(self.b)
        while x.size(-1) > 1:
            x = x[..., 1:]
        return x.exp()


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Mlp(), Mlp()])
        self.last = Sized()

    def middle(self, x):
        return torch.sigmoid(self.blocks[1](x))

    def forward(self, x):
        return self.last(self.middle(self.blocks[0](x)))


class NestedFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([MlpFlow(), MlpFlow()])
        self.last = SizedFlow()

    @subflow
    def middle(self, x):
        return x.through(self.blocks[1]).through(torch.sigmoid)

    def flow(self, x):
        return self.middle(x.through(self.blocks[0])).through(self.last)


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x, *more, mask=None, power=2):
        y = self.fc(x) * self.scale[: x.size(-1)]
        for each in more:
            y = y + each
        if mask is not None:
            y = y * mask
        return y.pow(power), {"in": x, "shape": [y.shape[-1]]}


class KeywordsFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def flow(self, x, *more, mask=None, power=2):
        y = x.through(self.fc) * self.scale[: x.size(-1)]
        for each in more:
            y = y + each
        if mask is not None:
            y = y * mask
        return y.pow(power), {"in": x, "shape": [y.shape[-1]]}


class Child(Sized):
    __factor = 3

    def forward(self, x):
        return super().forward(x) * self.__factor


class ChildFlow(SizedFlow):
    __factor = 3

    def flow(self, x):
        return super().flow(x) * self.__factor


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        if x.dim() == 3:
            x = x[0]
        a, b = self.a(x), self.b(x)
        y = torch.cat([a, b], dim=1)[:, 2:6]
        z = self.a(y) + self.b(y)
        for _ in range(2):
            z = self.b(z)
        rows = torch.stack(
            [self.a(z.select(1, i).unsqueeze(0).expand(4, -1).t()[:, :4]) for i in range(4)], 1
        )
        state = y * 0
        outputs = []
        for i in range(4):
            state = self.cell(rows.select(1, i), state)
            outputs.append(state)
        return torch.stack(outputs, 1), state + a, ["a", "b"]


class WordsFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.cell = nn.GRUCell(4, 4)

    def flow(self, x):
        if x.dim() == 3:
            x = x[0]
        branches = x.split(self.a, self.b)
        a, _ = branches
        y = branches.merge(Cat(dim=1))[:, 2:6].tag("y")
        z = y.also_with(skip=self.a, main=self.b)
        z = z.loop_body(self.b).for_n(2)

        def row(t):
            return self.a(t.unsqueeze(0).expand(4, -1).t()[:, :4])

        rows = z.map(row).along(1)
        outputs, state = rows.scan(self.cell, y * 0).along(1)
        return outputs, state.using("y").through(lambda s, y: s) + a, ["a", "b"]


PAIRS = {
    "mlp": (Mlp, MlpFlow, (3, 4)),
    "conv": (Conv, ConvFlow, (2, 3, 6, 6)),
    "attention": (Attention, AttentionFlow, (2, 5, 8)),
    "sized": (Sized, SizedFlow, (3, 4)),
    "nested": (Nested, NestedFlow, (3, 4)),
    "keywords": (Keywords, KeywordsFlow, (3, 4)),
    "child": (Child, ChildFlow, (2, 4)),
    "words": (Words, WordsFlow, (3, 4)),
}


@pytest.fixture(params=list(PAIRS))
def pair(request):
    plain, flow, shape = PAIRS[request.param]
    made = []
    for kind in (plain, flow):
        torch.manual_seed(0)
        made.append(kind())
    torch.compiler.reset()
    return *made, torch.randn(shape, requires_grad=True)


def forget(flow):
    """Let no part of a flow have a plan, as if none could be described without values."""
    for part in flow.modules():
        if isinstance(part, FlowModule):
            for plans in part._flodl_plans.values():
                plans.clear()


def plans_of(flow) -> int:
    parts = [part for part in flow.modules() if isinstance(part, FlowModule)]
    return sum(len(plans.programs) for part in parts for plans in part._flodl_plans.values())


def outcome(module, source, *inputs, **named):
    """Return the tensors of a call, all gradients, and the state of the random numbers."""
    for each in (*source.parameters(), *inputs):
        each.grad = None
    torch.manual_seed(3)
    result = module(*inputs, **named)
    leaves = torch.utils._pytree.tree_leaves(result)
    found = [each for each in leaves if isinstance(each, torch.Tensor)]
    sum(each.double().pow(2).sum() for each in found).backward()
    grads = [each.grad for each in (*source.parameters(), *inputs) if each.grad is not None]
    rest = [each for each in leaves if not isinstance(each, torch.Tensor)]
    return [*found, *grads, torch.get_rng_state(), *source.buffers()], rest


def assert_equal(one, other):
    (found, rest), (expected, expected_rest) = one, other
    assert rest == expected_rest
    assert len(found) == len(expected) > 1
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.slow
def test_compile_first_equals_the_original_and_records_nothing(pair, fullgraph, backend):
    plain, flow, x = pair
    forget(flow)
    compiled = torch.compile(flow, fullgraph=fullgraph, backend=backend)
    original = torch.compile(plain, fullgraph=fullgraph, backend=backend)
    for _ in range(2):
        assert_equal(outcome(compiled, flow, x), outcome(original, plain, x))
    assert plans_of(flow) == 0
    for _ in range(2):
        assert_equal(outcome(flow, flow, x), outcome(plain, plain, x))
    assert plans_of(flow) > 0


@pytest.mark.slow
def test_compile_after_an_eager_call_equals_the_original(pair):
    plain, flow, x = pair
    assert_equal(outcome(flow, flow, x), outcome(plain, plain, x))
    before = plans_of(flow)
    compiled = torch.compile(flow, fullgraph=True, backend="eager")
    for _ in range(2):
        assert_equal(outcome(compiled, flow, x), outcome(plain, plain, x))
    assert plans_of(flow) == before


@pytest.mark.parametrize("called", [False, True], ids=["first", "after"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.slow
def test_export_equals_the_export_of_the_original(pair, strict, called):
    plain, flow, x = pair
    plain.eval(), flow.eval()
    forget(flow)
    if called:
        flow(x)
    before = plans_of(flow)
    graphs = []
    for module in (flow, plain):
        exported = torch.export.export(module, (x.detach(),), strict=strict)
        graphs.append(nodes(exported))
        assert torch.equal(first(exported.module()(x)), first(plain(x)))
    if (
        strict
    ):  # Dynamo names placeholders after the way to a parameter, here past our `__getattr__`
        graphs = [[each for each in graph if each[0] != "placeholder"] for graph in graphs]
    assert graphs[0] == graphs[1]
    assert plans_of(flow) == before


def first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


@pytest.mark.slow
def test_export_with_a_dynamic_size_is_not_tied_to_the_plan(pair):
    plain, flow, x = pair
    if not isinstance(flow, (ConvFlow, AttentionFlow)):
        pytest.skip("the original branches on the size")
    plain.eval(), flow.eval()
    flow(x)
    shapes = ({0: torch.export.Dim("batch")},)
    exported = torch.export.export(flow, (x.detach(),), dynamic_shapes=shapes).module()
    more = torch.cat([x, x]).detach()
    assert torch.equal(exported(more), plain(more))


@pytest.mark.parametrize("called", [False, True], ids=["first", "after"])
def test_jit_trace_equals_the_original(pair, called):
    plain, flow, x = pair
    plain.eval(), flow.eval()
    if isinstance(flow, (KeywordsFlow, WordsFlow)):
        pytest.skip("torch.jit.trace takes neither dicts nor texts among the results")
    forget(flow)
    if called:
        flow(x)
    before = plans_of(flow)
    traced = torch.jit.trace(flow, x, check_trace=False)
    assert torch.equal(traced(x), plain(x))
    assert plans_of(flow) == before
    traced = torch.jit.trace(flow, x)  # its check is an eager call
    assert torch.equal(traced(x), plain(x))
    assert_equal(outcome(flow, flow, x), outcome(plain, plain, x))


@pytest.mark.parametrize("called", [False, True], ids=["first", "after"])
def test_symbolic_trace_gives_the_graph_of_the_original(pair, called):
    plain, flow, x = pair
    forget(flow)
    if called:
        flow(x), plain(x)
    before = plans_of(flow)
    expected = symbolic(plain)
    if isinstance(expected, Exception):
        with pytest.raises(type(expected), match=re.escape(str(expected))):
            torch.fx.symbolic_trace(flow)
        return
    traced = torch.fx.symbolic_trace(flow)
    assert plans_of(flow) == before
    assert nodes(traced) == nodes(expected)
    assert_equal(outcome(traced, traced, x), outcome(expected, expected, x))
    forget(flow)
    assert_equal(outcome(flow, flow, x), outcome(plain, plain, x))


def symbolic(module):
    """Return the graph that torch.fx traces, or why it cannot."""
    try:
        return torch.fx.symbolic_trace(module)
    except Exception as error:
        return error


def nodes(traced):
    return [(each.op, each.name, str(each.target)) for each in traced.graph.nodes]


# ---- flows without a plain body, and state ------------------------------------------------------


def without_text():
    """Return a flow whose source Python has not kept."""
    text = """
class Unwritten(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def flow(self, x):
        if x.size(0) > 2:
            x = x * 2
        return x.through(self.fc)
"""
    namespace = {"FlowModule": FlowModule, "nn": nn, "__name__": __name__}
    exec(compile(text, "<no file>", "exec"), namespace)
    torch.manual_seed(0)
    return namespace["Unwritten"]()


def test_compile_without_the_source_records_outside_of_the_graph():
    flow, x = without_text(), torch.randn(3, 4)
    torch.compiler.reset()
    compiled = torch.compile(flow, backend="eager")
    expected = flow.fc(x * 2)
    for _ in range(2):
        assert torch.equal(compiled(x), expected)
    assert torch.equal(flow(x), expected)


def test_fullgraph_without_the_source_says_what_to_do():
    flow, x = without_text(), torch.randn(3, 4)
    torch.compiler.reset()
    compiled = torch.compile(flow, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"call the module once, or build\(example_input\)"):
        compiled(x)
    flow.build(x)
    torch.compiler.reset()
    compiled = torch.compile(flow, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), flow.fc(x * 2))


class Counting(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.calls = 0
        self.last = None

    def flow(self, x):
        self.calls += 1
        if self.last is not None:
            x = x + self.last
        self.last = x.through(self.fc).detach()
        return x.through(self.fc)


def test_compile_writes_attributes_as_an_eager_call_does():
    torch.compiler.reset()
    flow, eager = Counting(), Counting()
    eager.load_state_dict(flow.state_dict())
    compiled = torch.compile(flow, backend="eager", fullgraph=True)
    x = torch.randn(2, 4)
    for _ in range(3):
        assert torch.equal(compiled(x), eager(x))
    assert flow.calls == eager.calls == 3
    assert torch.equal(flow.last, eager.last)


class Tagged(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def flow(self, x):
        if x.size(0) > 8:
            x = x[:8]
        y = x.through(self.a).tag("first").fork(self.b).tag("side").through(torch.relu)
        return y.using("side").also(torch.mul)


def test_compile_keeps_tagged_values_as_an_eager_call_does():
    torch.compiler.reset()
    flow, x = Tagged(), torch.randn(2, 4)
    compiled = torch.compile(flow, backend="eager", fullgraph=True)
    found = compiled(x)
    kept = {name: view(flow).tagged(name) for name in ("first", "side")}
    assert plans_of(flow) == 0
    assert torch.equal(flow(x), found)
    for name, value in kept.items():
        assert torch.equal(view(flow).tagged(name), value)


def test_other_tracers_keep_no_tagged_values():
    flow, x = Tagged(), torch.randn(2, 4)
    torch.export.export(flow, (x,))
    torch.jit.trace(flow, x, check_trace=False)
    with pytest.raises(Exception, match="first"):
        view(flow).tagged("first")


def doubled(forward):
    @functools.wraps(forward)
    def wrapper(self, x):
        return forward(self, x) * 2

    return wrapper


class Decorated(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    @on_forward(doubled)
    @torch.no_grad()
    def flow(self, x):
        return x.through(self.fc) if x.size(0) > 1 else x


def test_symbolic_trace_and_compile_keep_decorators():
    torch.compiler.reset()
    flow, x = Decorated(), torch.randn(2, 4)
    compiled = torch.compile(flow, backend="eager", fullgraph=True)(x)
    exported = torch.export.export(flow, (x,)).module()(x)
    assert plans_of(flow) == 0
    expected = flow(x)
    assert torch.equal(compiled, expected)
    assert torch.equal(exported, expected)
    assert not compiled.requires_grad
