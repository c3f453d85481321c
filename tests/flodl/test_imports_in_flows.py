"""Modules that load while a flow is recorded: they find torch, math and the clock as they are."""

import builtins
import importlib
import math
import subprocess
import sys

import pytest
import torch

from flodl import FlowModule
from flodl.tracing.patching import RECORDINGS, intercept_calls

pytestmark = pytest.mark.torch

LATE = """
from math import ceil, sqrt
from time import time
from os import environ

import torch
from torch import is_grad_enabled, where

FOUND = [ceil, sqrt, time, is_grad_enabled, where, type(environ)]
TABLE = torch.ones(2)
"""


@pytest.fixture
def late(tmp_path, monkeypatch):
    """Return the name of a module that no program has loaded."""
    name = f"late_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(LATE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


class Statement(FlowModule):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def flow(self, x):
        return x + x.through(lambda value: value * len(__import__(self.name).FOUND))


class ByLibrary(Statement):
    def flow(self, x):
        found = importlib.import_module(self.name).FOUND
        return x * len(found)


@pytest.mark.parametrize("kind", [Statement, ByLibrary])
def test_module_that_loads_in_a_recording_has_the_plain_functions(kind, late):
    result = kind(late)(torch.ones(1))
    assert result.item() == (7 if kind is Statement else 6)
    loaded = sys.modules[late]
    files = [getattr(getattr(each, "__code__", None), "co_filename", "") for each in loaded.FOUND]
    assert [file for file in files if "flodl" in file] == []
    assert type(loaded.TABLE) is torch.Tensor
    assert type(sys.modules["os"].environ) is loaded.FOUND[-1]


def test_import_after_a_recording_is_the_plain_one(late):
    before = builtins.__import__, importlib.import_module
    Statement(late)(torch.ones(1))
    assert (builtins.__import__, importlib.import_module) == before


def test_import_while_another_thread_records_takes_nothing_from_it(late):
    RECORDINGS.append(-1)  # the number of no thread
    try:
        Statement(late)(torch.ones(1))
    finally:
        RECORDINGS.remove(-1)
        with intercept_calls():
            """Its end puts everything back."""
    assert sys.modules[late].FOUND[0] is not math.ceil
    assert sys.modules[late].FOUND[0](1.5) == 2


def test_recording_after_an_import_in_it_is_intercepted_again(late):
    class Timed(FlowModule):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def flow(self, x):
            importlib.import_module(self.name)
            return x + torch.rand(1)

    module = Timed(late)
    torch.manual_seed(0)
    drawn = [module(torch.zeros(1)).item() for _ in range(2)]
    torch.manual_seed(0)
    assert drawn == [torch.rand(1).item() for _ in range(2)]


@pytest.mark.slow
def test_checkpoint_as_the_first_user_of_dynamo_leaves_it_whole():
    """torch loads Dynamo in the first call of `checkpoint`, which is a step here."""
    program = """
import sys
import torch
from torch.utils.checkpoint import checkpoint
from flodl import FlowModule, call

class Saving(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
    def flow(self, x):
        return call(checkpoint, self.fc, x, use_reentrant=False)

assert "torch._dynamo" not in sys.modules
saving = Saving()
saving(torch.ones(1, 2))
compiled = torch.compile(
    lambda x: x * 2 if torch.is_grad_enabled() else x, fullgraph=True, backend="eager"
)
print(compiled(torch.ones(1)).item())
leaked = [
    f"{name}.{key}"
    for name, module in list(sys.modules.items())
    if name.startswith(("sympy", "torch._dynamo"))
    for key, value in list(vars(module).items())
    if type(value).__name__ == "function" and "/flodl/" in value.__code__.co_filename
]
print(leaked)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "2.0\n[]\n", done.stderr
