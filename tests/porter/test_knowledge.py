"""The tables agree with torch and with the runtime; reasons are numbered, named and explained."""

import inspect
import re
from pathlib import Path

import pytest

from fdl_cli.porter.knowledge import python_names, tensor_methods, torch_names
from fdl_cli.porter.knowledge.reasons import REASONS, RETIRED
from fdl_cli.porter.plan.decide import IMPORTABLE

MANUAL = Path(__file__).parents[2] / "docs" / "explanation" / "porter.md"


# Names of the methods that `flodl.view` offers, and of those that a flow module has.
VIEWED = (
    "build", "code", "collect", "describe", "detach_state", "end_epoch", "end_step", "epoch", "eta", "freeze",
    "from_sequential", "html", "profile", "rebuild", "record", "reset_state", "spec", "step", "svg", "tagged",
    "timing", "_forget", "_kinds", "_main", "_memory", "_plans", "_programs", "_repr_svg_", "_set_plans",
)  # fmt: skip


METHODS = """
import torch
from torch import nn

class Net(nn.Module):
    {0} = 1

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.{1}(self.a(x)) + self.{0}

    def {1}(self, value):
        return value * 2
"""


@pytest.mark.torch
@pytest.mark.parametrize("name", VIEWED)
def test_port_of_class_with_names_of_the_view_gives_equal_values(porter, name):
    import torch

    other = "freeze" if name != "freeze" else "svg"
    text = METHODS.format(other, name)
    made = porter.text(text)
    assert "class Net(FlowModule)" in made
    answers = []
    for source in (text, made):
        space = {"__name__": "net"}
        exec(source, space)
        torch.manual_seed(0)
        net = space["Net"]()
        answers.append(net(torch.ones(2, 4)).tolist())
    assert answers[0] == answers[1]


@pytest.mark.torch
@pytest.mark.parametrize(
    "name", ["freeze", "code", "spec", "build", "describe", "end_step", "flow", "rebuild"]
)
def test_a_layer_or_a_value_may_have_such_a_name(porter, name):
    import torch

    text = METHODS.format("profile", "timing").replace("self.a", f"self.{name}")
    text = text.replace("        self.", "        self.dot = 3\n        self.", 1)
    assert "class Net(FlowModule)" in porter.text(text)
    answers = []
    for source in (text, porter.text(text)):
        space = {"__name__": "net"}
        exec(source, space)
        torch.manual_seed(0)
        net = space["Net"]()
        answers.append((net(torch.ones(2, 4)).tolist(), net.dot, list(net.state_dict())))
    assert answers[0] == answers[1]


def test_class_with_a_method_called_flow_is_kept(porter):
    (reason,) = porter.reasons(METHODS.format("profile", "flow"))
    assert reason.code == "FDL210"
    assert "FDL205" in RETIRED


@pytest.mark.torch
def test_every_word_that_is_written_can_be_imported():
    import flodl

    assert set(IMPORTABLE) <= set(vars(flodl))


@pytest.mark.torch
@pytest.mark.parametrize(
    "table",
    ["STATELESS_LAYERS", "PYTHON_RESULTS", "SEQUENCE_RESULTS", "CONTAINERS"],
)
def test_torch_has_the_names_of_the_tables(table):
    import torch

    for name in vars(torch_names)[table]:
        found = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found)


@pytest.mark.torch
def test_stateless_layers_hold_nothing():
    import torch

    for name in torch_names.STATELESS_LAYERS:
        kind = getattr(torch.nn, name.rpartition(".")[2])
        asked = inspect.signature(kind).parameters.values()
        free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = [each for each in asked if each.default is each.empty and each.kind not in free]
        layer = kind(*([2] * len(needed)))
        assert not list(layer.parameters())
        assert not list(layer.buffers())


@pytest.mark.torch
def test_tensors_have_the_methods_of_the_tables():
    import torch

    for table in ("SIZE_METHODS", "SIZE_ATTRIBUTES", "PYTHON_ATTRIBUTES"):
        for name in vars(tensor_methods)[table]:
            assert name in dir(torch.Tensor), name


def test_builtins_exist():
    import builtins

    assert set(dir(builtins)) >= python_names.BUILTINS


def test_reasons_are_explained_in_the_manual():
    text = MANUAL.read_text(encoding="utf-8")
    for reason in REASONS.values():
        assert re.fullmatch(r"FDL[234]\d\d", reason.code)
        assert f"| {reason.code} | {reason.title} | {reason.advice} |" in text
    assert set(re.findall(r"FDL\d{3}", text)) <= set(REASONS)


def test_only_some_stages_see_the_syntax_tree():
    root = Path(__file__).parents[2] / "fdl_cli" / "porter"
    for room in ("ir", "knowledge", "plan", "report"):
        for file in (root / room).glob("*.py"):
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"^\s*(import|from) (ast|libcst)\b", text, re.MULTILINE), file


def test_weights_of_torchvision_are_no_modules():
    names = (
        "models.ResNet",
        "ops.MLP",
        "models._api.WeightsEnum",
        "models.ResNet18_Weights",
        "models.resnet18",
    )
    found = [torch_names.is_foreign_module(f"torchvision.{name}") for name in names]
    assert found == [True, True, False, False, False]
    assert not torch_names.is_foreign_module("models.ResNet")
