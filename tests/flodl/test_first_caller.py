"""A tool that traces modules may be the first caller of a flow, and sees what it sees in the original."""

from __future__ import annotations

import functools
import re

import pytest
import torch
from torch import nn

from flodl import Add, Cat, FlowError, FlowModule, Mean, on_forward, view
from tests.flodl.traced_twins import PAIRS, AttentionFlow, ConvFlow, KeywordsFlow, WordsFlow

pytestmark = [
    pytest.mark.torch,
    # torch calls torch.jit.trace deprecated, in another way in each version.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning"
    ),
]


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


@pytest.mark.parametrize(("backend", "fullgraph"), [("eager", True), ("aot_eager", False)])
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
@pytest.mark.slow
def test_growing_batches_compile_as_many_graphs_as_the_original(pair, called):
    plain, flow, x = pair
    if isinstance(flow, WordsFlow):
        pytest.skip("the words and the plain code differ in some operations")
    if called:
        flow(x)
    counts = []
    for module in (flow, plain):
        torch.compiler.reset()
        graphs = []
        backend = functools.partial(counted, graphs)
        compiled = torch.compile(module, backend=backend, fullgraph=True)
        for copies in (1, 2, 3, 4):
            compiled(torch.cat([x.detach()] * copies))
        counts.append([len(graph.nodes) for graph in graphs])
    assert counts[0] == counts[1]


def counted(graphs, module, inputs):
    """Run a graph as it is, and note it."""
    graphs.append(module.graph)
    return module.forward


@pytest.mark.parametrize(
    ("strict", "called"),
    [(False, False), (True, False), (False, True)],
    ids=["first", "strict first", "after"],
)
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
    if strict:
        # Dynamo names placeholders after the way to a parameter, here past our `__getattr__`.
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


def test_symbolic_trace_without_the_source_names_the_way_out():
    with pytest.raises(FlowError, match=r"its source is not there.*torch\.export\.export"):
        torch.fx.symbolic_trace(without_text())


def test_export_without_the_source_traces_a_plan():
    flow, x = without_text(), torch.randn(3, 4)
    expected = flow(x)
    assert torch.equal(torch.export.export(flow, (x,)).module()(x), expected)
    assert plans_of(flow) == 1


class Remembers(FlowModule):
    def flow(self, x):
        return (x + x.previous("sum")).tag("sum")


def test_a_flow_with_state_has_no_plain_body_and_is_traced_by_its_plan():
    torch.compiler.reset()
    flow, eager, x = Remembers(), Remembers(), torch.ones(2)
    flow(x), eager(x)
    compiled = torch.compile(flow, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), eager(x))


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


def test_an_export_keeps_no_tagged_values():
    flow, x = Tagged(), torch.randn(2, 4)
    torch.export.export(flow, (x,))
    with pytest.raises(Exception, match="first"):
        view(flow).tagged("first")


def test_a_trace_with_proxies_leaves_the_kept_values_alone():
    class Always(FlowModule):
        def flow(self, x):
            return (x * 2).tag("double") + 1

    flow, x = Always(), torch.randn(2, 4)
    flow(x)
    torch.fx.symbolic_trace(flow)
    assert torch.equal(view(flow).tagged("double"), x * 2)


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


class Routes(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def flow(self, x):
        if x.size(0) > 8:
            x = x[:8]
        weights = torch.softmax(x[:, :2], -1)
        y = x.gate(weights, self.a, self.b).tag("mixed")
        z = y.gate(self.router, self.a, (self.b, torch.relu))
        branches = z.split(self.a, self.b).tag_group("both")
        total = branches.merge(Add()) + branches.merge(Mean)
        rows = total.map(self.a).over("both_0") + total.map(self.b).batched().slices(1)
        return rows.using("mixed").merge(Cat(dim=1)).through(lambda t: t * 2)

    def router(self, x):
        return torch.sigmoid(x[:, 2:])


def test_words_do_under_tools_what_they_do_eagerly():
    torch.compiler.reset()
    flow, x = Routes(), torch.randn(3, 4)
    compiled = torch.compile(flow, backend="eager", fullgraph=True)(x)
    exported = torch.export.export(flow, (x,)).module()(x)
    traced = torch.jit.trace(flow, x, check_trace=False)(x)
    assert plans_of(flow) == 0
    expected = flow(x)
    assert torch.equal(compiled, expected)
    assert torch.equal(exported, expected)
    assert torch.equal(traced, expected)


@pytest.mark.parametrize("wrong", ["unknown", "twice"])
def test_a_wrong_tag_is_an_error_under_tools_too(wrong):
    class Wrong(FlowModule):
        def flow(self, x):
            y = (x + x.size(0)).tag("a")
            return y.using("b").through(torch.add) if wrong == "unknown" else (y * 2).tag("a")

    with pytest.raises(FlowError, match=r"no value is tagged `b`|tag `a` is already"):
        torch.jit.trace(Wrong(), torch.ones(2), check_trace=False)
