"""What is no module when it runs is kept; a module with a call of its own is proved by that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fdl_cli.app import main
from tests.porter.verify.examining import examine_files

pytestmark = pytest.mark.torch

DISGUISED = """
import types
from torch import nn

Layer = nn.Linear
globals().update(nn=types.SimpleNamespace(Module=object))


class Runner(nn.Module):
    def __init__(self):
        self.fc = Layer(4, 4)

    def forward(self, x):
        y = self.fc(x)
        return y + x
"""


@pytest.mark.slow
def test_what_is_no_module_when_it_runs_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "disguised.py"
    file.write_text(DISGUISED, encoding="utf-8")
    ported = tmp_path / "ported.py"
    main(["port", str(file), "-o", str(ported), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["data"]["files"]
    (found,) = report["classes"]
    (reason,) = found["reasons"]
    assert (found["status"], reason["code"], reason["line"]) == ("kept", "FDL203", 9)
    assert "no torch module" in reason["message"]
    assert not ported.exists()


CALLED = """
from torch import nn


class Judge(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.loss = {"squares": nn.MSELoss(), "logits": nn.BCEWithLogitsLoss()}[mode]

    def __call__(self, guess, is_true):
        wanted = guess.new_full(guess.shape, float(is_true))
        loss = self.loss(guess, wanted)
        return loss
"""


@pytest.mark.slow
def test_a_model_with_a_call_of_its_own_is_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "judge.py"
    file.write_text(CALLED, encoding="utf-8")
    main(["port", str(file), "-o", str(tmp_path / "ported.py"), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["data"]["files"]
    (found,) = report["classes"]
    assert (found["status"], found["verify"]["status"]) == ("graph", "equal"), found["verify"]


KEPT = """
from torch import nn


class Server(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 4)

    def forward(self, x):
        y = self.fc(x)
        return y.relu()


_server = None


def get_server(width=4):
    global _server
    if _server is None:
        _server = Server(width)
    return _server
"""


def test_a_model_that_a_function_keeps_is_made_by_its_class(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(KEPT, encoding="utf-8")
    ported = tmp_path / "ported.py"
    ported.write_text(KEPT, encoding="utf-8")
    found = examine_files(file, ported, ("Server",), workdir=tmp_path / "work")["Server"]
    assert (found["status"], found["detail"]) == ("equal", "")
