"""Gates, switches, maps and halting loops: against plain Python, compiled, copied and moved."""

from __future__ import annotations

import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import BuildError, Flow, FlowBuilder, FlowModule, GraphError
from flodl.nn.routers import (
    ArgmaxSelector,
    FixedSelector,
    LearnedHalt,
    Reshape,
    SigmoidRouter,
    SoftmaxRouter,
    StateAdd,
    ThresholdHalt,
)

pytestmark = pytest.mark.torch


class Double(nn.Module):
    def forward(self, x):
        return x * 2


# ---- gate ------------------------------------------------------------------------------------------


class Mixture(FlowModule):
    def __init__(self, router=SoftmaxRouter, convolutional: bool = False) -> None:
        super().__init__()
        self.router = router(4, 3)
        make = (
            (lambda: nn.Sequential(Reshape(-1, 4, 1, 1), nn.Conv2d(4, 2, 1)))
            if convolutional
            else (lambda: nn.Linear(4, 5))
        )
        self.experts = nn.ModuleList(make() for _ in range(3))

    def flow(self, x: Flow) -> Flow:
        return x.gate(self.router, *self.experts)


@pytest.mark.parametrize("router", [SoftmaxRouter, SigmoidRouter])
@pytest.mark.parametrize("convolutional", [False, True])
def test_gate_is_a_weighted_sum_of_experts_of_any_rank(router, convolutional):
    module, x = Mixture(router, convolutional), torch.randn(6, 4)
    weights = module.router(x)
    outputs = [expert(x) for expert in module.experts]
    shape = (6,) + (1,) * (outputs[0].dim() - 1)
    expected = sum(weights[:, i].reshape(shape) * outputs[i] for i in range(3))
    for _ in range(2):
        torch.testing.assert_close(module(x), expected)
    stacked = (torch.stack(outputs, -1) * weights.reshape(*shape, 3)).sum(-1)
    torch.testing.assert_close(module(x), stacked)


def test_gate_weights_per_token():
    class Tokens(FlowModule):
        def __init__(self):
            super().__init__()
            self.router, self.a, self.b = SoftmaxRouter(4, 2), nn.Linear(4, 4), nn.Linear(4, 4)

        def flow(self, x):
            return x.gate(self.router, self.a, (self.b, torch.relu))

    module, x = Tokens(), torch.randn(2, 3, 4)
    w = module.router(x)
    expected = w[..., :1] * module.a(x) + w[..., 1:] * torch.relu(module.b(x))
    torch.testing.assert_close(module(x), expected)
    torch.autograd.gradcheck(module.double(), (x.double().requires_grad_(),))


def test_gate_checks_the_number_of_weights():
    graph = FlowBuilder.new().gate(SoftmaxRouter(4, 3), nn.Linear(4, 4), nn.Linear(4, 4)).build()
    with pytest.raises(GraphError, match="3 weights for 2 experts"):
        graph(torch.randn(2, 4))


# ---- switch ----------------------------------------------------------------------------------------


def test_switch_runs_one_branch_for_the_batch():
    ran: list[int] = []
    branches = [nn.Linear(4, 4) for _ in range(3)]
    for position, branch in enumerate(branches):
        branch.register_forward_hook(lambda *_, position=position: ran.append(position))
    graph = FlowBuilder.new().switch(FixedSelector(1), branches).build()
    x = torch.randn(2, 4)
    assert torch.equal(graph(x), branches[1](x))
    assert ran == [1, 1]


def test_switch_dispatches_every_sample():
    selector = ArgmaxSelector(4, 3)
    branches = [nn.Linear(4, 4) for _ in range(3)]
    graph = FlowBuilder.new().switch(selector, *branches).build()
    x = torch.randn(16, 4)
    chosen = selector(x)
    assert len(set(chosen.tolist())) > 1
    expected = torch.stack(
        [branches[k](row[None])[0] for k, row in zip(chosen.tolist(), x, strict=True)]
    )
    torch.testing.assert_close(graph(x), expected)
    graph(x).sum().backward()
    used = set(chosen.tolist())
    assert [branch.weight.grad is not None for branch in branches] == [k in used for k in range(3)]


def test_switch_refuses_what_is_no_branch():
    graph = FlowBuilder.new().switch(FixedSelector(5), nn.Identity(), nn.Identity()).build()
    with pytest.raises(GraphError, match="chose branch 5, but there are 2"):
        graph(torch.randn(2, 4))


def test_routers_read_tags():
    class Summed(FlowModule):
        def __init__(self):
            super().__init__()
            self.router, self.a, self.b = SoftmaxRouter(4, 2), nn.Linear(4, 4), nn.Linear(4, 4)

        def flow(self, x, hint):
            return x.gate(self.router, self.a, self.b, hint=hint)

    module, x, hint = Summed(), torch.randn(2, 4), torch.randn(2, 4)
    w = module.router(x + hint)
    torch.testing.assert_close(module(x, hint), w[:, :1] * module.a(x) + w[:, 1:] * module.b(x))
    graph = (
        FlowBuilder.new()
        .input("hint")
        .switch(ArgmaxSelector(4, 2, per_sample=False), nn.Identity(), Double())
        .using("hint")
        .build()
    )
    router = graph.get_submodule("argmaxselector_1")
    with torch.no_grad():
        router.linear.weight.zero_()
        router.linear.weight[1] = 1.0
        router.linear.bias.zero_()
    assert torch.equal(graph(torch.zeros(2, 4), torch.ones(2, 4)), torch.zeros(2, 4))
    x = torch.full((2, 4), 0.5)
    assert torch.equal(graph(x, torch.ones(2, 4)), x * 2)
    assert torch.equal(graph(x, -torch.ones(2, 4)), x)


# ---- map -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", [False, True])
def test_map_each_and_slices(batched):
    body = nn.Sequential(nn.Linear(2, 3), nn.Tanh())

    def mapped(builder):
        word = builder.map(body)
        return word.batched() if batched else word

    x = torch.randn(5, 7, 6)
    graph = mapped(FlowBuilder.new()).slices(3).build()
    expected = torch.cat([body(part) for part in x.split(2, dim=-1)], dim=-1)
    torch.testing.assert_close(graph(x), expected)
    rows = torch.randn(5, 2)
    torch.testing.assert_close(mapped(FlowBuilder.new()).each().build()(rows), body(rows))
    assert mapped(FlowBuilder.new()).each().build()(rows[:0]).shape == (0, 2)
    with pytest.raises(GraphError, match="n x m"):
        graph(torch.randn(2, 7))


def test_map_over_an_earlier_value():
    body = nn.Linear(4, 4)
    graph = FlowBuilder.new().tag("start").through(torch.relu).map(body).over("start").build()
    x = torch.randn(3, 4)
    torch.testing.assert_close(graph(x), body(x))
    with pytest.raises(BuildError, match="no value is tagged `nothing`"):
        FlowBuilder.new().map(body).over("nothing").build()


# ---- loops -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "threshold", "expected"),
    [("while", 10.0, [8.0, 16.0]), ("while", 0.5, [1.0, 2.0]), ("until", 0.5, [2.0, 4.0])],
)
def test_halting_loops_reference_values(how, threshold, expected):
    word = FlowBuilder.new().loop_body(Double())
    halt = ThresholdHalt(threshold)
    graph = (word.while_cond(halt, 20) if how == "while" else word.until_cond(halt, 20)).build()
    assert torch.equal(graph(torch.tensor([[1.0, 2.0]])), torch.tensor([expected]))


def test_loops_stop_at_their_limit():
    never = ThresholdHalt(1e9)
    x = torch.tensor([[1.0]])
    assert FlowBuilder.new().loop_body(Double()).while_cond(never, 3).build()(x).item() == 8.0
    assert FlowBuilder.new().loop_body(Double()).until_cond(never, 3).build()(x).item() == 8.0


def test_a_loop_body_reads_tags_in_every_turn():
    class AddContext(nn.Module):
        def forward_named(self, x, refs):
            return x + refs["ctx"]

    graph = FlowBuilder.new().tag("ctx").loop_body(AddContext()).for_n(3).using("ctx").build()
    assert torch.equal(graph(torch.tensor([[2.0, 3.0]])), torch.tensor([[8.0, 12.0]]))


@pytest.mark.parametrize("kind", ["while", "until"])
@pytest.mark.slow
def test_samples_stop_on_their_own(kind):
    class PerSample(FlowModule):
        def __init__(self):
            super().__init__()
            self.body, self.halt = Double(), ThresholdHalt(10.0, per_sample=True)

        def flow(self, x):
            loop = x.loop_body(self.body)
            if kind == "while":
                return loop.while_cond(self.halt, 8, per_sample=True)
            return loop.until_cond(self.halt, 8, per_sample=True)

    module = PerSample()
    x = torch.tensor([[1.0], [3.0], [20.0]])
    expected = torch.tensor([[16.0], [12.0], [20.0 if kind == "while" else 40.0]])
    for _ in range(2):
        assert torch.equal(module(x), expected)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), expected)
    assert torch.equal(torch.export.export(module, (x,)).module()(x), expected)


def test_a_failing_turn_says_which():
    class Shrinks(nn.Module):
        def forward(self, x):
            return x.narrow(1, 0, x.size(1) - 2)

    graph = FlowBuilder.new().loop_body(Shrinks()).until_cond(ThresholdHalt(1e9), 5).build()
    with pytest.raises(RuntimeError) as caught:
        graph(torch.zeros(1, 5))
    assert caught.value.__notes__[0] == "in loop turn 3"


def test_gradients_flow_through_all_turns():
    cell = nn.Linear(3, 3).double()
    graph = FlowBuilder.new().loop_body(cell).while_cond(ThresholdHalt(1e9), 4).build().double()
    torch.autograd.gradcheck(graph, (torch.randn(2, 3, dtype=torch.float64, requires_grad=True),))


# ---- all together ----------------------------------------------------------------------------------


def test_everything_in_one_chain_builds_runs_draws_copies_and_trains():
    torch.manual_seed(0)  # a branch that no sample takes does not learn
    graph = (
        FlowBuilder.from_(nn.Linear(4, 8))
        .tag("stem")
        .gate(SoftmaxRouter(8, 2), nn.Linear(8, 8), (nn.Linear(8, 8), F.gelu))
        .using("stem")
        .map(nn.Linear(4, 4))
        .batched()
        .slices(2)
        .also(StateAdd())
        .using("memory")
        .tag("memory")
        .loop_body(nn.Linear(8, 8))
        .until_cond(LearnedHalt(8), 3)
        .switch(ArgmaxSelector(8, 2), nn.Linear(8, 2), nn.Linear(8, 2))
        .label("all")
        .build()
    )
    x, target = torch.randn(16, 4), torch.randn(16, 2)
    optimizer = torch.optim.SGD(graph.parameters(), lr=0.05)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.mse_loss(graph(x), target)
        loss.backward()
        optimizer.step()
        graph.end_step()
        graph.end_sequence()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    made = pickle.loads(pickle.dumps(graph))
    graph.end_sequence()
    assert torch.equal(made(x), graph(x))
    assert "gate" in str(graph)
    assert "switch" in graph.dot()
