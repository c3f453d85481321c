"""The command line: help without torch, mistakes with code 2, train, resume and eval in turn."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flodl import FlodlError, TrainedState

from {{ package }} import config, train
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


def test_help_lists_every_setting_with_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config, "DEFAULT", tmp_path / "default.toml")
    for text, seed in (("seed = 41", 41), ("seed = nonsense", 0)):
        (tmp_path / "default.toml").write_text(text)
        with pytest.raises(SystemExit, match="0"):
            main(["train", "--help"])
        shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
        assert {f"seed={seed}", "train.amp=false", "train.device=auto"} <= set(shown)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs in a temporary folder, whatever the project's default file contains."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "DEFAULT", tmp_path / "default.toml")
    for name in ("first", "second"):
        assert main(["train", "--output", f"runs/{name}", "train.epochs=1", *SMALL]) == 0
    return tmp_path / "runs"


def evaluated(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["eval", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_mistakes_are_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "DEFAULT", tmp_path / "default.toml")
    for words, said in (
        (["train", "train.epoch=1"], "train.epochs"),
        (["eval"], "train first"),
        (["resume", "nowhere"], "no run nowhere"),
        (["resume", "."], "not the folder of a run"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err


def test_every_run_has_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train.epochs=1", "output=runs", *SMALL]
    assert main(["train", *words]) == main(["train", *words]) == 0
    first, _ = (tmp_path / "runs").iterdir()
    assert {"checkpoints", "metrics", "project.json"} <= {path.name for path in first.iterdir()}
    assert main(["train", "--output", str(first), *words]) == 2
    assert "continues it" in capsys.readouterr().err


def test_sweep_trains_each_combination_and_ends_with_a_table(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = ["seed=1,2", "train.learning_rate=0.1,0.01", "train.epochs=1", *SMALL]
    assert main(["train", *words]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()[-5:]]
    assert head == ["run", "settings", "last", "loss"]
    settings = [(seed, rate) for _, seed, rate, _ in rows]
    rates = ("train.learning_rate=0.1", "train.learning_rate=0.01")
    assert settings == [(seed, rate) for seed in ("seed=1", "seed=2") for rate in rates]
    assert len({folder for folder, *_ in rows}) == 4
    for folder, seed, rate, loss in rows:
        kept = config.stored(Path(folder))
        assert {f"seed={kept.seed}", f"train.learning_rate={kept.train.learning_rate}"} == {
            seed,
            rate,
        }
        assert float(loss) > 0
    # The last run is the one that these words make alone.
    alone = ["seed=2", "train.learning_rate=0.01", "train.epochs=1", *SMALL]
    assert main(["train", "--output", str(runs / "alone"), *alone]) == 0
    one, two = evaluated(capsys, rows[-1][0]), evaluated(capsys, "alone")
    assert one["loss"] == two["loss"]


def test_sweep_goes_on_after_a_run_that_fails_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fit = train.fit

    def spoilt(config: config.Config, folder: Path) -> TrainedState:
        if config.seed == 1:
            raise FlodlError("planted")
        return fit(config, folder)

    monkeypatch.setattr(train, "fit", spoilt)
    assert main(["train", "seed=1,2", "train.epochs=1", *SMALL]) == 1
    shown = capsys.readouterr()
    assert "error: planted" in shown.err
    first, second = [line.split() for line in shown.out.splitlines()[-2:]]
    assert first[1:] == ["seed=1", "FlodlError"]
    assert float(second[-1]) > 0


def test_mistake_in_a_sweep_ends_it_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["seed=1,x"], "must be int"),
        (["seed=1,2", "logger=none,excel"], "must be one of monitor"),
        (["--output", "here", "seed=1,2"], "output=FOLDER"),
        (["logger=excel"], "must be one of monitor"),
    ):
        assert main(["train", *words, *SMALL]) == 2
        assert said in capsys.readouterr().err
        assert not list(tmp_path.iterdir())


def test_eval_measures_the_run_or_the_checkpoint_that_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (newest,) = (runs / "second" / "checkpoints").glob("*.fdl")
    assert Path(evaluated(capsys)["checkpoint"]).resolve() == newest
    (other,) = (runs / "first" / "checkpoints").glob("*.fdl")
    for name in ("first", "runs/first", str(other)):
        assert Path(evaluated(capsys, name)["checkpoint"]).resolve() == other
    usual, changed = evaluated(capsys), evaluated(capsys, "data.noise=0.1")
    assert usual["loss"] != changed["loss"]


def test_resume_continues_the_run_that_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def epochs(name: str) -> int:
        notes = (runs / name / "checkpoints").glob("*.json")
        return max(int(json.loads(path.read_text())["epoch"]) for path in notes)

    assert main(["resume", "first", "train.epochs=2"]) == 0
    assert (epochs("first"), epochs("second")) == (2, 1)
    assert main(["resume", "train.epochs=3"]) == 0
    assert (epochs("first"), epochs("second")) == (2, 3)
    # The run has kept what was changed, and a change that does not fit is refused, and not kept.
    assert main(["resume"]) == 0
    assert config.stored(runs / "second").train.epochs == 3
    capsys.readouterr()
    assert main(["resume", "model.width=16"]) == 2
    assert "error" in capsys.readouterr().err
    assert config.stored(runs / "second").model.width == 8
