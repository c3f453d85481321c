"""Tiering goes back to eager steps wherever recorded ones would not be the same."""

import copy
import random

import pytest
import torch
from torch import nn

from flodl.nn.optimizers import SGD, Adam
from flodl.step import tiering as tiering_module
from flodl.step.binding import Binding
from flodl.step.program import record
from flodl.step.recipe import Recipe
from flodl.step.refusal import RefusedStepError
from flodl.step.step import make_step
from tests.flodl.step.helpers import Replay, batches, net, train_fn
from tests.flodl.step.replayed import compiled_step

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("replay")]


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
    counts = {float(each["step"]) for each in step.recipe.optimizer.state.values()}
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

    monkeypatch.setattr(tiering_module, "Compilation", Wrong)
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
