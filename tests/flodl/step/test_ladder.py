"""The ladder: recorded steps equal eager ones, and it goes back to eager whenever they would not."""

import copy
import random

import pytest
import torch
from torch import nn

from flodl import Flow, FlowModule
from flodl.nn.optimizers import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop
from flodl.step import ladder as ladder_module
from flodl.step.binding import Binding
from flodl.step.ema import Ema
from flodl.step.program import record
from flodl.step.recipe import Recipe
from flodl.step.refusal import RefusedStepError
from flodl.step.step import make_step
from tests.flodl.step.helpers import Replay, batches, net, train_fn

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True)
def replay(monkeypatch):
    monkeypatch.setattr(ladder_module, "Compilation", Replay)
    monkeypatch.setattr(ladder_module, "compiler_missing", lambda device: None)
    monkeypatch.setattr(ladder_module, "_SECONDS_BEFORE_TRYING", 0.0)


def both(optimizer, *, make=net, fn=train_fn, data=None, between=lambda *parts: None, **settings):
    """Run the same steps compiled and eagerly; return both models and the losses."""
    found = []
    for mode in ("compiled", "eager"):
        model = make()
        made = optimizer(model)
        if settings.pop("with_ema", False) or "ema" in settings:
            settings["ema"] = Ema(model, 0.9)
        step = make_step(model, made, fn, mode=mode, **settings)
        torch.manual_seed(3)
        losses = []
        for number, batch in enumerate(data or batches()):
            losses.append(step(batch))
            between(number, model, made, step)
        found.append((model, torch.stack(losses), step))
    return found


def assert_close(found, **tolerance):
    (model, losses, step), (twin, expected, _) = found
    assert step.mode == "compiled", step.decision
    torch.testing.assert_close(losses, expected, **tolerance)
    for (name, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=name, **tolerance)


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
    torch.testing.assert_close(model.tagged("hidden"), expected)
    torch.testing.assert_close(model.tagged("bent"), expected.tanh())
    assert step.gradient_norm.numel() == 1
    model.observe_tags("bent")
    step((x, y))
    assert "eager: other tags are observed" in said
    assert model.tagged("hidden") is None
    step((x, y))
    assert step.mode == "compiled"
    assert model.tagged("bent") is not None


def test_a_graph_that_is_profiled_runs_eagerly():
    model = Tagged()
    model.enable_profiling()
    _, said = compiled_step(model)
    assert said[-1] == "eager: the graph is being profiled"


# ---- going back ---------------------------------------------------------------------------------


def compiled_step(model, fn=train_fn, optimizer=None, steps=2, **settings):
    said = []
    step = make_step(
        model, optimizer or Adam(model, 0.01), fn, mode="compiled", report=said.append, **settings
    )
    for batch in batches(steps):
        step(batch)
    return step, said


def test_other_shapes_run_without_disturbing():
    model = net()
    step, _ = compiled_step(model)
    assert step.mode == "compiled"
    step(batches(1, rows=7)[0])
    assert step.mode == "eager"
    step(batches(1, rows=7)[0])
    assert step.mode == "compiled"  # a shape of its own
    step(batches(1)[0])
    assert step.mode == "compiled"
    counts = {float(each["step"]) for each in step._recipe.optimizer.state.values()}
    assert counts == {5.0}


def test_many_forms_of_batches_are_not_all_compiled():
    model = net()
    step, said = compiled_step(model)
    for rows in range(6, 12):
        step(batches(1, rows=rows)[0])
    assert said[-1].endswith("batches of more than 4 forms; others are eager")
    step(batches(1)[0])
    assert step.mode == "compiled"


def test_a_frozen_parameter_is_not_updated_any_more():
    model = net()
    step, said = compiled_step(model)
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    step(batches(1)[0])
    assert "eager: parameters were frozen or thawed" in said
    assert torch.equal(model[0].weight, before)
    step(batches(1)[0])
    assert step.mode == "compiled"
    assert torch.equal(model[0].weight, before)


def test_hooks_are_run():
    model = net()
    step, _ = compiled_step(model)
    seen = []
    handle = model[2].register_forward_hook(lambda *parts: seen.append(1))
    for _ in range(3):
        step(batches(1)[0])
    assert len(seen) == 3
    assert step.decision == "eager: a hook is registered on `2`"
    handle.remove()
    for _ in range(70):
        step(batches(1)[0])
    assert step.mode == "compiled"
    model[0].weight.register_hook(lambda gradient: seen.append(2))
    step(batches(1)[0])
    assert seen[-1] == 2


def test_evaluation_mode_is_respected():
    model = net()
    step, said = compiled_step(model)
    model[1].eval()
    statistics = model[1].running_mean.clone()
    step(batches(1)[0])
    assert torch.equal(model[1].running_mean, statistics)
    assert "eager: training and evaluation modes changed" in said


def test_a_loaded_state_is_taken_over():
    model, other = net(), net()
    optimizer, taken = Adam(model, 0.01), Adam(other, 0.01)
    step, _ = compiled_step(model, optimizer=optimizer, steps=4)
    resumed, _ = compiled_step(other, optimizer=taken, steps=3)
    other.load_state_dict(model.state_dict())
    taken.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for batch in batches(4):
        torch.testing.assert_close(step(batch), resumed(batch))
    assert resumed.mode == "compiled"


def test_replaced_parameters_are_noticed():
    model = net()
    optimizer = SGD(model, 0.1)
    step, said = compiled_step(model, optimizer=optimizer)
    model[3].weight.data = torch.zeros(1, 8)
    step(batches(1)[0])
    assert "eager: parameters moved" in said


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x) / self.calls


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1)
        self.kept = None

    def forward(self, x):
        self.kept = self.inner(x)
        return self.kept


class Deciding(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x):
        x = self.inner(x)
        return x if x.sum() > 0 else x * 2


class Rolling(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x):
        return self.inner(x) * random.random()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Counting, "the forward changes `calls` of the model"),
        (Keeping, "the forward changes `kept` of the model"),
        (Deciding, "the step reads the value of a tensor"),
        (Rolling, "the step draws from Python's random numbers"),
    ],
)
def test_a_forward_that_is_more_than_its_tensors_runs_eagerly(kind, why):
    model, twin = kind(), kind()
    twin.load_state_dict(model.state_dict())
    if kind is Rolling:
        random.seed(3)
    step, said = compiled_step(model, steps=4, optimizer=SGD(model, 0.1))
    assert step.mode == "eager"
    assert why in said[-1]
    if kind is Rolling:
        random.seed(3)
    expected = make_step(twin, SGD(twin, 0.1), train_fn, mode="eager")
    for batch in batches(4):
        expected(batch)
    assert torch.equal(model.inner.weight, twin.inner.weight)


def test_a_closed_over_model_is_noticed():
    model = net()
    step, said = compiled_step(model, fn=lambda _, batch: train_fn(model, batch))
    assert "the loss does not depend on `0.weight` of the model that train_fn is given" in said[-1]
    assert step.mode == "eager"


def test_an_unknown_optimizer_runs_eagerly():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    model = net()
    step, said = compiled_step(model, optimizer=Own(model.parameters(), 0.1))
    assert step.mode == "eager"
    assert "the update of Own is not one of SGD, Adam" in said[-1]


def test_batches_of_other_things_run_eagerly():
    model = net()
    step = make_step(
        model, SGD(model, 0.1), lambda m, b: train_fn(m, next(iter(b))), mode="compiled"
    )
    step({batches(1)[0]})
    assert step.decision == "eager: a batch holds a set, not only tensors and plain values"


def test_a_difference_is_found_before_it_does_harm(monkeypatch):
    class Wrong(Replay):
        def result(self):
            def call(inputs):
                outputs = self.program.graph(*inputs)
                inputs[0].add_(1e-3)
                return outputs

            return call

    monkeypatch.setattr(ladder_module, "Compilation", Wrong)
    model, twin = net(), net()
    step, said = compiled_step(model, steps=4)
    assert step.mode == "eager"
    assert "differ from eager ones by" in said[-1]
    expected = make_step(twin, Adam(twin, 0.01), train_fn, mode="eager")
    for batch in batches(4):
        expected(batch)
    assert torch.equal(model[0].weight, twin[0].weight)


def test_recording_leaves_no_trace():
    model = net()
    optimizer = Adam(model, 0.01)
    make_step(model, optimizer, train_fn, mode="eager")(batches(1)[0])
    recipe = Recipe(model=model, optimizer=optimizer, train_fn=train_fn)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    numbers = torch.get_rng_state()
    record(recipe, Binding(recipe).layout, batches(1)[0])
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for a, b in zip(
        before[0].values(), model.state_dict().values(), strict=True))  # fmt: skip
    for place, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(each, before[1][place][name]) for name, each in state.items())
    del numbers


def test_shared_memory_is_refused():
    model = nn.Linear(2, 2)
    model.register_buffer("view", model.weight.detach()[0])
    optimizer = SGD(model, 0.1)
    make_step(model, optimizer, lambda m, b: m(b).sum(), mode="eager")(torch.ones(1, 2))
    with pytest.raises(RefusedStepError, match="share memory"):
        Binding(Recipe(model=model, optimizer=optimizer, train_fn=train_fn))


# ---- auto ---------------------------------------------------------------------------------------


def test_auto_keeps_the_faster_and_says_why(monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr(ladder_module.time, "perf_counter", lambda: clock["now"])

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

    monkeypatch.setattr(ladder_module, "Compilation", Timed)
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
