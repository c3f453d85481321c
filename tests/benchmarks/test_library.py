"""The benchmark of libraries on a made-up one: it tells equal, failing and wrong tests apart."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.library_suite import comparison

ROOT = Path(__file__).parents[2]
MODEL = """\
import torch
from torch import nn


class Mix(nn.Module):
    scale = 1.0

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        x = self.layer(x)
        return torch.relu(x) * self.scale
"""
TESTS = """\
import os
import random

import pytest

from benchmarks.library_suite import comparison
import torch
from little import Mix

entropy = random.Random()


def test_same():
    x = torch.randn(2, 4) * entropy.random()
    Mix(4)(x).sum().backward()


def test_fails():
    assert Mix(4)(torch.ones(1, 4)).shape == (4, 1)


def test_skips():
    pytest.skip("no reason")


def test_wants_the_base_of_the_original():
    assert Mix.__bases__ == (torch.nn.Module,)


def test_wants_another_base():
    assert Mix.__bases__ != (torch.nn.Module,)


def test_wrong_number():
    net = Mix(4)
    net.scale = float(len(Mix.__mro__))
    net(torch.ones(1, 4))


def test_wrong_gradient():
    net = Mix(4)
    loss = net(torch.ones(1, 4)).sum()
    (loss * len(Mix.__mro__)).backward()


def test_unsteady():
    net = Mix(4)
    net.scale = float(os.getpid())
    net(torch.ones(1, 4))


def test_ends_the_process_of_the_port():
    if Mix.__bases__ != (torch.nn.Module,):
        os.abort()


def test_takes_too_long():
    while True:
        pass


def test_after_all():
    Mix(4)(torch.ones(1, 4))
"""
STATES = {
    "same": "same",
    "fails": "both fail",
    "skips": "both skip",
    "wants_the_base_of_the_original": "newly failing",
    "wants_another_base": "newly passing",
    "wrong_number": "wrong",
    "wrong_gradient": "wrong",
    "unsteady": "unsteady",
    "ends_the_process_of_the_port": "newly failing",
    "takes_too_long": "over the limit",
    "after_all": "same",
}


@pytest.fixture
def little(tmp_path):
    home = tmp_path / "little"
    (home / "little").mkdir(parents=True)
    (home / "tests").mkdir()
    (home / "little" / "__init__.py").write_text("from .model import Mix\n", "utf-8")
    (home / "little" / "model.py").write_text(MODEL, "utf-8")
    (home / "tests" / "test_mix.py").write_text(TESTS, "utf-8")

    def run(*words):
        argv = [sys.executable, str(ROOT / "benchmarks" / "library.py"), str(home)]
        argv += ["--work", str(tmp_path / "work"), "--json", str(tmp_path / "found.json")]
        done = subprocess.run([*argv, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return tmp_path, run


@pytest.mark.slow
@pytest.mark.torch
def test_library_tests_of_every_kind_get_their_state(little):
    home, run = little
    code, text = run("--limit-s", "2")
    assert code == 1, text
    found = json.loads((home / "found.json").read_text("utf-8"))
    states = {
        name.partition("::test_")[2]: each["state"] for name, each in found["by_test"].items()
    }
    assert states == STATES, text
    assert found["compared"] == 6
    assert (found["same"], found["wrong"], found["newly failing"]) == (2, 2, 2)
    assert (found["graphs"], found["classes"]) == (1, 1)
    assert "wrong: tests/test_mix.py::test_wrong_gradient: number 2 of 3: gradients" in text
    assert found["measured"]["commit"]

    code, text = run("--limit-s", "2", "--tests", "tests/test_mix.py::test_same", "--again")
    assert code == 0, text
    assert "tests: 1, compared 1" in text


@pytest.mark.torch
def test_library_without_a_package_is_refused(tmp_path):
    from benchmarks.library_suite import sources

    with pytest.raises(
        SystemExit, match=r"none of timm, torchvision, transformers, and no folder"
    ):
        sources.library(str(tmp_path))


@pytest.mark.torch
def test_library_folder_without_tests_is_refused(tmp_path):
    from benchmarks.library_suite import sources

    with pytest.raises(SystemExit, match=r"holds no tests; .* add `--source FOLDER`"):
        sources.tests(sources.LIBRARIES["timm"], tmp_path, tmp_path)


def row(outcome, *numbers, message=""):
    return {"outcome": outcome, "numbers": list(numbers), "message": message, "seconds": 1.0}


NUMBERS = ["Net 1", "Dropout 2", "gradients 3", "random state 4"]
NO_SOURCE = "OSError: could not get source code"


@pytest.mark.parametrize(
    ("numbers", "difference"),
    [
        (NUMBERS, ""),
        # A method that is part of a flow calls its layers within one plan.
        (["Net 1", "gradients 3", "random state 4"], ""),
        (["Net 0", *NUMBERS[1:]], "number 1 of 4: Net 1 is Net 0"),
        ([*NUMBERS[:2], "gradients 0", NUMBERS[3]], "number 3 of 4: gradients 3 is gradients 0"),
        (["Net 1", "Dropout 2", "random state 4"], "number 3 of 3: gradients 3 is random state 4"),
        (NUMBERS[:3], "1 numbers are missing, first random state 4"),
        ([*NUMBERS, "Net 5"], "number 5 of 5: nothing is Net 5"),
    ],
)
def test_numbers_that_differ_name_the_first_one(numbers, difference):
    assert comparison.first_difference(NUMBERS, numbers) == difference


@pytest.mark.parametrize(
    ("port", "state"),
    [
        (row("failed", "Net 1", "random state 0", message=NO_SOURCE), "no TorchScript"),
        (row("failed", "Net 0", "random state 0", message=NO_SOURCE), "newly failing"),
        (row("failed", "Net 1", "random state 0", message="OSError: no file"), "newly failing"),
        (row("skipped", *NUMBERS), "newly failing"),
    ],
)
def test_port_that_cannot_be_scripted_has_its_own_state(port, state):
    found = comparison.compare({"a": row("passed", *NUMBERS)}, {"a": port}, {})
    assert found["a"]["state"] == state


def test_library_whose_ports_cannot_be_scripted_is_good_but_not_one_without_tests():
    tests = comparison.compare(
        {"a": row("passed", "Net 1", "random state 4")},
        {"a": row("failed", "Net 1", "random state 0", message=NO_SOURCE)},
        {},
    )
    assert comparison.is_good(comparison.summary(tests, []))
    assert not comparison.is_good(comparison.summary({}, []))
