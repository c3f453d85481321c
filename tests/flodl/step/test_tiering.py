"""Tiering: recorded steps equal eager ones, and the faster ones are kept."""

import pytest
import torch
from torch import nn

from flodl import Flow, FlowModule, view
from flodl.nn.optimizers import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop
from flodl.step import tiering as tiering_module
from flodl.step.binding import Binding
from flodl.step.program import record
from flodl.step.recipe import Recipe
from flodl.step.step import make_step
from tests.flodl.step.helpers import Replay, batches, net, train_fn
from tests.flodl.step.replayed import assert_close, both, compiled_step

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("replay")]

OPTIMIZERS = {
    "sgd": lambda m: SGD(m, 0.1),
    "momentum": lambda m: SGD(m, 0.1, 0.9, nesterov=True, weight_decay=0.1),
    "dampened": lambda m: SGD(m, 0.1, 0.9, dampening=0.5, maximize=True),
    "adam": lambda m: Adam(m, 0.01, weight_decay=0.1),
    "amsgrad": lambda m: Adam(m, 0.01, amsgrad=True, maximize=True),
    "adamw": lambda m: AdamW(m, 0.01, 0.1),
    "rmsprop": lambda m: RMSprop(m, 0.01, momentum=0.9, centered=True, weight_decay=0.1),
    "rmsprop plain": lambda m: RMSprop(m, 0.01),
    "adagrad": lambda m: Adagrad(m, 0.1, lr_decay=0.1, weight_decay=0.1),
    "radam": lambda m: RAdam(m, 0.01, weight_decay=0.1),
    "nadam": lambda m: NAdam(m, 0.01, weight_decay=0.1),
    "nadam decoupled": lambda m: NAdam(m, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "groups": lambda m: Adam.with_groups().group(m[0], 0.01).group(m[1:], 0.001).build(),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_rule_updates_like_torch(name):
    assert_close(both(OPTIMIZERS[name], data=batches(9)), rtol=1e-4, atol=1e-5)


def test_clipping_averages_and_metrics_are_part_of_the_step():
    def with_metrics(model, batch):
        loss = train_fn(model, batch)
        return loss, {"twice": loss * 2}

    found = both(lambda m: Adam(m, 0.01), fn=with_metrics, clip_norm=0.1, ema=None)
    assert_close(found, rtol=1e-4, atol=1e-5)
    (model, losses, step), (_, _, eager) = found
    torch.testing.assert_close(step.metrics["twice"], losses[-1] * 2)
    torch.testing.assert_close(step.gradient_norm, eager.gradient_norm)
    ours, theirs = step.state_dict()["ema"]["averages"], eager.state_dict()["ema"]["averages"]
    for name, each in ours.items():
        torch.testing.assert_close(each, theirs[name])
    assert all(each.grad is None for each in model.parameters())


def test_dropout_draws_the_random_numbers_of_eager():
    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5), nn.Linear(64, 1))

    assert_close(both(lambda m: SGD(m, 0.01), make=make), rtol=1e-5, atol=1e-6)


def test_bf16_is_part_of_the_step():
    assert_close(both(lambda m: SGD(m, 0.1), precision="bf16"), rtol=1e-2, atol=1e-2)


def test_tied_and_frozen_weights():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Linear(3, 1))
        model[2].weight = model[0].weight
        model[3].weight.requires_grad_(False)
        return model

    assert_close(both(lambda m: Adam(m, 0.01), make=make), rtol=1e-4, atol=1e-5)


def test_schedules_change_the_rate_without_a_new_step():
    def schedule(number, model, optimizer, step):
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
            group["betas"] = (0.8 + number / 100, 0.99)

    found = both(lambda m: Adam(m, 0.1), between=schedule)
    assert_close(found, rtol=1e-4, atol=1e-5)
    said = found[0][2].decision
    assert said.startswith("compiled: losses within"), said


def test_flows_compile_like_other_modules():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 8)
            self.outer = nn.Linear(8, 1)

        def flow(self, x: Flow) -> Flow:
            return x.through(self.inner).also(torch.tanh).through(self.outer)

    def make():
        torch.manual_seed(0)
        return Net()

    assert_close(both(lambda m: Adam(m, 0.01), make=make), rtol=1e-4, atol=1e-5)


class Attending(nn.Module):
    def __init__(self, *, reads):
        super().__init__()
        torch.manual_seed(0)
        self.mha = nn.MultiheadAttention(3, 1, batch_first=True)
        self.head = nn.Linear(3, 1)
        self.reads = reads

    def forward(self, x):
        found, weights = self.mha(x[None], x[None], x[None])
        return self.head(found[0]) + (weights.mean() if self.reads else 0.0)


@pytest.mark.parametrize("reads", [False, True])
def test_attention_makes_no_weights_that_nobody_reads(reads):
    found = both(lambda m: SGD(m, 0.1), make=lambda: Attending(reads=reads))
    assert_close(found, rtol=1e-4, atol=1e-6)
    model = found[0][0]
    optimizer = SGD(model, 0.1)
    make_step(model, optimizer, train_fn, mode="eager")(batches(1)[0])
    recipe = Recipe(model=model, optimizer=optimizer, train_fn=train_fn)
    code = record(recipe, Binding(recipe).layout, batches(1)[0]).graph.code
    assert ("scaled_dot_product" in code) == (not reads)
    assert "forward" not in vars(model.mha)


class Tagged(FlowModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(3, 8)
        self.outer = nn.Linear(8, 1)

    def flow(self, x: Flow) -> Flow:
        hidden = x.through(self.inner).tag("hidden")
        return hidden.through(torch.tanh).tag("bent").through(self.outer)


def test_tagged_values_are_those_of_the_compiled_step():
    model = Tagged()
    optimizer = SGD(model, 0.1)
    step, said = compiled_step(model, optimizer=optimizer, steps=3, clip_norm=1.0)
    x, y = batches(4)[3]
    with torch.no_grad():
        expected = model.inner(x)
    step((x, y))
    assert step.mode == "compiled"
    torch.testing.assert_close(view(model).tagged("hidden"), expected)
    torch.testing.assert_close(view(model).tagged("bent"), expected.tanh())
    assert step.gradient_norm.numel() == 1
    view(model).observe_tags("bent")
    step((x, y))
    assert "eager: other tags are observed" in said
    assert view(model).tagged("hidden") is None
    step((x, y))
    assert step.mode == "compiled"
    assert view(model).tagged("bent") is not None


def test_a_graph_that_is_profiled_runs_eagerly():
    model = Tagged()
    view(model).enable_profiling()
    _, said = compiled_step(model)
    assert said[-1] == "eager: the graph is being profiled"


def test_auto_keeps_the_faster_and_says_why(monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr(tiering_module.time, "perf_counter", lambda: clock["now"])

    class Timed(Replay):
        cost = 0.1

        def result(self):
            def call(inputs):
                clock["now"] += self.cost
                return self.program.graph(*inputs)

            return call

    def slow_loss(model, batch):
        clock["now"] += 1.0
        return train_fn(model, batch)

    monkeypatch.setattr(tiering_module, "Compilation", Timed)
    for Timed.cost, expected in (
        (2.0, "eager: compiled is not faster (2e+03 ms"),
        (0.1, "compiled: 10.00x as fast"),
    ):
        model, said = net(), []
        step = make_step(model, Adam(model, 0.01), slow_loss, mode="auto", report=said.append)
        for batch in batches(40):
            step(batch)
        assert said[-1].startswith(expected), said
        assert (step.mode == "compiled") == (Timed.cost < 1)
        step.close()


def test_auto_trains_on_every_batch_once():
    model, twin = net(), net()
    step = make_step(model, SGD(model, 0.1), train_fn, mode="auto")
    expected = make_step(twin, SGD(twin, 0.1), train_fn, mode="eager")
    for batch in batches(60):
        torch.testing.assert_close(step(batch), expected(batch), rtol=1e-4, atol=1e-6)
    assert "ms eager)" in step.decision
