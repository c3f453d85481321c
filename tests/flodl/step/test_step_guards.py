"""What a recorded step has read of model and optimizer is guarded: a change takes it back to eager."""

import pytest
import torch
from torch import nn

from flodl.nn.optimizers import SGD
from flodl.step.recipe import Recipe
from flodl.step.step_guards import StepGuards
from tests.flodl.step.test_value_guards import compared

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("replay")]


class Scaled(nn.Module):
    """Reads settings of its own and of modules of torch in each forward."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(
            nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LeakyReLU(0.2), nn.Dropout(0.0)
        )
        self.scale = 1.5
        self.squared = False
        self.length = 0

    def forward(self, x):
        self.length = len(x)  # a note, as many models keep one
        x = self.inner(x) * self.scale
        return (x.square() if self.squared else x.abs()).mean()


def loss_of(model, x):
    return model(x)


BATCHES = [torch.randn(6, 4, generator=torch.Generator().manual_seed(n)) for n in range(10)]


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("", "scale", 0.5),
        ("", "squared", True),
        ("inner.1", "momentum", 0.9),
        ("inner.1", "eps", 0.5),
        ("inner.2", "negative_slope", 0.7),
        ("inner.3", "p", 1.0),
    ],
)
def test_attribute_that_changes_after_the_recording_is_seen_by_the_next_step(path, name, value):
    made = []

    def make():
        made.append(Scaled())
        return made[-1]

    before = getattr(Scaled().get_submodule(path), name)

    def between(number):
        for model in made:
            setattr(model.get_submodule(path), name, before if number < 6 else value)

    modes, said = compared(loss_of, BATCHES, make=make, between=between)
    assert modes[5] == "compiled"
    assert any("an attribute of a module changed" in line for line in said), said


def guards_of(model):
    optimizer = SGD(model, 0.1)
    recipe = Recipe(model=model, optimizer=optimizer, train_fn=loss_of)
    return StepGuards(recipe, list(model.parameters()))


def test_note_of_a_forward_is_no_guard():
    model = Scaled()
    guards = guards_of(model)
    model.length = 77
    assert guards.stale() is None


@pytest.mark.parametrize("change", ["deleted", "array", "same"])
def test_attribute_that_is_deleted_or_becomes_an_array_breaks_the_guard(change):
    model = Scaled()
    guards = guards_of(model)
    if change == "deleted":
        del model.scale
    elif change == "array":
        model.scale = torch.ones(4)
    else:
        model.scale = 1.0 + 0.5
    assert (guards.stale() is None) == (change == "same")
