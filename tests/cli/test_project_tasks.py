"""The tasks of a generated project, run through `fdl` from a folder inside it."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.scaffold.conftest import make

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("docker", [False, True])
def test_the_manifest_is_valid_and_lists_its_tasks(fdl, tmp_path, docker):
    root = make(tmp_path / "my-proj", docker=docker)
    done = fdl("tasks", "--json", cwd=root / "src")
    assert done.returncode == 0, done.stdout
    names = [task["name"] for task in json.loads(done.stdout)["data"]["tasks"]]
    expected = ["train", "resume", "eval", "test", "lint", "fmt", "types", "check"]
    assert names == expected + ["shell"] * docker
    assert fdl("--env", "ci", "run", "-n", "train", cwd=root).returncode == 0


@pytest.mark.parametrize("docker", [False, True])
def test_help_of_train_lists_its_settings_with_their_defaults_and_trains_nothing(
    fdl, tmp_path, docker
):
    root = make(tmp_path / "my-proj", docker=docker)
    path = root / "configs" / "default.toml"
    path.write_text(path.read_text().replace("epochs = 5", "epochs = 7"))
    shown = fdl("train", "--help", cwd=root / "src", PATH=PATH).stdout
    assert "Usage: fdl train [OPTIONS] [KEY=VALUE...]" in shown
    assert "Train a model; KEY=VALUE words change the configuration" in shown
    assert "Runs: python -m my_proj train" in shown
    assert "--config TEXT" in shown
    assert {"  train.epochs=7", "  model.width=64", "  seed=0"} <= set(shown.splitlines())
    path.write_text(path.read_text().replace("epochs = 7", "epochs = 8"))
    assert "  train.epochs=8\n" in fdl("train", "--help", cwd=root, PATH=PATH).stdout
    inner = fdl("--native", "train", "--", "--help", cwd=root, PATH=PATH)
    assert inner.stdout.startswith("usage: my_proj train"), inner.stderr
    assert not (root / "runs").exists()


@pytest.mark.slow
@pytest.mark.torch
def test_train_with_several_values_sweeps_and_ends_with_a_table(fdl, tmp_path):
    root = make(tmp_path / "my-proj")
    environ = {"PATH": PATH, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    words = ("train.learning_rate=0.1,0.01", "seed=1,2", "train.epochs=1", "data.samples=128")
    done = fdl("train", *words, "logger=none", cwd=root / "src", **environ)
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()[-5:]]
    assert head == ["run", "settings", "last", "loss"]
    assert sorted(root / row[0] for row in rows) == sorted((root / "runs").iterdir())
    assert len({tuple(row[1:3]) for row in rows}) == 4
    missing = fdl("train", "logger=wandb", "output=other", cwd=root, **environ)
    assert (missing.returncode, "python -m pip install wandb" in missing.stderr) == (2, True)
    assert not (root / "other").exists()


@pytest.mark.slow
@pytest.mark.torch
def test_the_first_epoch_and_what_follows(fdl, tmp_path):
    root = make(tmp_path / "my-proj")
    environ = {"PATH": PATH, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    done = fdl("train", "train.epochs=1", "data.samples=256", cwd=root / "src", **environ)
    assert done.returncode == 0, done.stderr
    assert "epoch 1/1" in done.stdout
    assert json.loads(fdl("eval", cwd=root, **environ).stdout)["epoch"] == 1
    again = fdl("resume", "train.epochs=2", cwd=root, **environ)
    assert "from epoch 1" in again.stdout, again.stdout
    assert "epoch 2/2" in again.stdout, again.stdout
    assert json.loads(fdl("eval", cwd=root, **environ).stdout)["epoch"] == 2
    wrong = fdl("train", "train.epoch=1", cwd=root, **environ)
    assert (wrong.returncode, "train.epochs" in wrong.stderr) == (2, True)
    assert fdl("lint", cwd=root, **environ).returncode == 0
