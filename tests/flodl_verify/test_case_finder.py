"""The search for cases of the classes of a file does nothing twice that it can keep."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from flodl_verify.compare.results import EVAL, ClassResults
from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.inputs.rules import settings_guesses
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sides.subject import scalar_loss
from flodl_verify.values.snapshot import Freezer
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

COUNTED = """
from torch import nn

made = []


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        made.append(size)
        self.fc = nn.Linear(size, 3)

    def forward(self, x):
        return self.fc(x)


class Holder(nn.Module):
    def __init__(self, net: Net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)
"""
SETTINGS = """
from torch import nn


class First(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, config.width)

    def forward(self, x):
        return self.fc(x)


class Second(First):
    pass
"""


def found_in(side: Side, *names: str) -> CaseFinder:
    book = CaseFinder(side, names, 20.0)
    book.add_guesses()
    return book


def test_case_finder_first_guess_fits_makes_no_other(tmp_path: Path) -> None:
    side = opened(tmp_path, COUNTED)
    book = found_in(side, "Holder")
    assert book.cases["Holder"]
    # One net for the guess, one for the model that is built of it, one for the sizes of its inputs.
    assert side.namespace()["made"] == [16, 16, 16]


def test_settings_names_are_read_once_per_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = opened(tmp_path, SETTINGS)
    read: list[str] = []
    known = settings_guesses.class_node
    monkeypatch.setattr(
        settings_guesses, "class_node", lambda kind: read.append(kind.__name__) or known(kind)
    )
    book = found_in(side, "First", "Second")
    assert set(book.cases) == {"First", "Second"}
    assert sorted(read) == ["First", "Second"]


def test_side_active_takes_its_modules_out_again(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text("here = 1\n", encoding="utf-8")
    side = opened(tmp_path, "import near\n")
    assert "near" not in sys.modules
    before = dict(sys.modules)
    with side.active():
        assert sys.modules["near"].here == 1
        sys.modules["near"] = replaced = type(sys)("near")
    assert dict(sys.modules) == before
    with side.active():
        assert sys.modules["near"] is replaced


def test_scalar_loss_twice_weighs_with_the_same_noise() -> None:
    values = torch.arange(6.0).reshape(2, 3).requires_grad_()
    trees = [Freezer().flatten(values, "output", draw=True) for _ in range(2)]
    first, second = map(scalar_loss, trees)
    noise = torch.randn(
        (2, 3), generator=torch.Generator().manual_seed(77), dtype=torch.float64
    ).float()
    assert torch.equal(first, second)
    assert torch.equal(first, (values * noise).sum() / 6**0.5)


@pytest.mark.parametrize(
    ("value", "code"),
    [([1], "plain-value"), (None, "plain-value"), (3, "plain-value"), (torch.ones(1), "raised")],
)
def test_failure_of_a_flow_word_asked_of_a_plain_value_has_a_code(
    value: object, code: str
) -> None:
    failure = attempt(lambda: value.through(len))  # type: ignore[attr-defined]
    assert isinstance(failure, Failure)
    assert failure.code == code
    class_results = ClassResults()
    class_results.port_failed(EVAL, failure, 3, "eval, call 1")
    expected = "port-asks-plain-value" if code == "plain-value" else "port-raises"
    assert class_results.result("Net", "").error_code == expected
