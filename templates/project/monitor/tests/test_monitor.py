"""A run can be looked at with `fdl monitor`: the loss of each step, the metrics of each epoch."""

from dataclasses import replace
from pathlib import Path

from flodl.monitor.storage import open_reader

from {{ package }} import checkpoint
from {{ package }}.config import Config
from {{ package }}.train import fit, start


def test_a_run_is_recorded(config: Config, tmp_path: Path) -> None:
    training = start(config)
    history = fit(training, tmp_path)
    reader = open_reader(tmp_path)
    assert reader.run.status() == "finished"
    assert [{"epoch": each.epoch + 1, **each.metrics} for each in reader.history()] == history
    steps = reader.run.series["metrics"]["train_loss"].window().steps
    assert steps == tuple(range(len(steps)))
    assert len(steps) % len(history) == 0


def test_a_resumed_run_continues_its_curves(config: Config, tmp_path: Path) -> None:
    config = replace(config, keep_checkpoints=9)
    fit(start(config), tmp_path)
    before = open_reader(tmp_path).run.series["metrics"]["train_loss"].window()
    resumed = start(config)
    resumed.load(checkpoint.load(tmp_path / "epoch-0001.pt"))
    fit(resumed, tmp_path)
    reader = open_reader(tmp_path)
    after = reader.run.series["metrics"]["train_loss"].window()
    assert (after.steps, after.mean) == (before.steps, before.mean)
    assert [each.epoch for each in reader.history()] == [0, 1, 2]
