"""The tables agree with torch and with the runtime; reasons are numbered, named and explained."""

import re
from pathlib import Path

import pytest

from fdl_cli.porter.knowledge import python_names, tensor_methods, torch_names
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.knowledge.reserved import RESERVED
from fdl_cli.porter.plan.decide import IMPORTABLE

MANUAL = Path(__file__).parents[2] / "docs" / "porter.md"


@pytest.mark.torch
def test_reserved_names_are_those_of_every_graph():
    import torch

    from flodl import FlowModule

    own = set(dir(FlowModule)) - set(dir(torch.nn.Module)) | {"flow"}
    assert {name for name in own if not name.startswith("__")} == RESERVED


@pytest.mark.torch
def test_every_word_that_is_written_can_be_imported():
    import flodl

    assert set(IMPORTABLE) <= set(vars(flodl))


@pytest.mark.torch
@pytest.mark.parametrize(
    "table",
    ["STATELESS_LAYERS", "ALIASING_LAYERS", "PYTHON_RESULTS", "SEQUENCE_RESULTS", "CONTAINERS"],
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

    needed = {
        "AvgPool": (2,),
        "MaxPool": (2,),
        "Adaptive": (1,),
        "Pad2d": (1,),
        "PixelShuffle": (2,),
    }
    needed |= {"Unfold": (2,), "Fold": (4, 2)}
    for name in torch_names.STATELESS_LAYERS:
        last = name.rpartition(".")[2]
        arguments = next((value for key, value in needed.items() if key in last), ())
        if last == "ConstantPad2d":
            arguments = (1, 0.0)
        layer = getattr(torch.nn, last)(*arguments)
        assert not list(layer.parameters())
        assert not list(layer.buffers())


@pytest.mark.torch
def test_tensors_have_the_methods_of_the_tables():
    import torch

    for table in ("SIZE_METHODS", "SIZE_ATTRIBUTES", "VIEW_METHODS", "PYTHON_ATTRIBUTES"):
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
