"""The command line: help without torch, mistakes with code 2, train, resume and eval in turn."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from {{ package }}.__main__ import main

SMALL = ["data.samples=64", "model.width=8", "train.device=cpu"]


HELP = """
import sys
from {{ package }}.__main__ import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
assert "torch" not in sys.modules
"""


def test_help_does_not_import_torch() -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "src")}
    command = [sys.executable, "-c", HELP]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert "train" in done.stdout


def test_a_wrong_key_is_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "train.epoch=1"]) == 2
    assert "train.epochs" in capsys.readouterr().err


def test_train_resume_and_eval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["eval"]) == 2
    assert main(["train", "train.epochs=1", *SMALL]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert {path.name for path in run.iterdir()} == {
        "config.json",
{%- if monitor %}
        "metrics",
{%- endif %}
        "metrics.jsonl",
        "epoch-0001.pt",
    }
    assert main(["resume"]) == 0
    capsys.readouterr()
    assert main(["eval"]) == 0
    assert json.loads(capsys.readouterr().out)["epoch"] == 1
