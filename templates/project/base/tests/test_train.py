"""Training learns, repeats itself, resumes exactly, records itself, and obeys its settings."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from flodl import Batch, Monitor, NonFiniteError, TrainedState
from flodl.monitor.store.storage import open_reader
from torch import Tensor, nn

from {{ package }} import config as configuration
from {{ package }} import train
from {{ package }}.config import Config, ConfigError, changed, stored
from {{ package }}.evaluate import evaluate, evaluate_checkpoint
from {{ package }}.model import build_model
from {{ package }}.train import fit

CPU = torch.device("cpu")


def equal(first: TrainedState, second: TrainedState) -> bool:
    one, two = first.state_dict(), second.state_dict()
    return all(torch.equal(one[name], two[name]) for name in one)


def test_two_runs_are_equal(config: Config, tmp_path: Path) -> None:
    first = fit(config, tmp_path / "a")
    torch.manual_seed(12345)  # the state from before does not matter
    assert equal(first, fit(config, tmp_path / "b"))


def resumed_after_an_epoch(config: Config, folder: Path) -> TrainedState:
    fit(config, folder)
    for path in (folder / "checkpoints").iterdir():
        if path.stem != "step-000000003":  # what the first epoch has left
            path.unlink()
    torch.manual_seed(12345)  # a new process has another state
    return fit(config, folder, resume=True)


def test_resume_is_exact(config: Config, tmp_path: Path) -> None:
    whole = fit(config, tmp_path / "whole")
    resumed = resumed_after_an_epoch(config, tmp_path / "cut")
    assert (resumed.epochs, len(resumed.history)) == (3, 2)
    assert equal(whole, resumed)
    losses = [epoch.scalars["val_loss"] for epoch in whole.history]
    assert [epoch.scalars["val_loss"] for epoch in resumed.history] == losses[1:]


def test_the_seed_covers_numpy_and_python(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")

    def noisy(model: nn.Module, batch: Batch) -> Tensor:
        *inputs, labels = batch
        noise = float(numpy.random.randn()) + random.gauss(0, 1)
        return nn.functional.cross_entropy(model(*inputs) * (1 + noise), labels)

    quiet = fit(config, tmp_path / "quiet")
    monkeypatch.setattr(train, "train_step", noisy)
    whole = fit(config, tmp_path / "whole")
    assert not equal(quiet, whole)
    numpy.random.seed(12345)
    random.seed(12345)
    assert equal(whole, fit(config, tmp_path / "again"))
    assert equal(whole, resumed_after_an_epoch(config, tmp_path / "cut"))


def test_a_batch_is_learnt_by_heart(config: Config, tmp_path: Path) -> None:
    words = ["train.epochs=60", "train.warmup_epochs=0", "train.learning_rate=1e-2"]
    easy = ["data.samples=16", "data.noise=0.1", "model.dropout=0.0"]
    history = fit(changed(config, words + easy), tmp_path).history
    assert history[-1].avg_loss < 0.05 < history[0].avg_loss


@pytest.mark.parametrize(
    "word",
    [
        "seed=4",
        "data.noise=1.0",
        "data.batch_size=8",
        "model.dropout=0.0",
        "train.learning_rate=1e-4",
        "train.weight_decay=0.5",
        "train.warmup_epochs=0",
        "train.clip_norm=1e-9",
        "train.accumulate=2",
        "train.amp=true",
    ],
)
def test_every_setting_counts(config: Config, tmp_path: Path, word: str) -> None:
    config = replace(config, train=replace(config.train, epochs=2))
    usual = fit(config, tmp_path / "usual")
    other = fit(changed(config, [word]), tmp_path / "other")
    assert not equal(usual, other)


def test_the_learning_rate_follows_its_schedule(config: Config, tmp_path: Path) -> None:
    peak = config.train.learning_rate
    rates = [epoch.lr for epoch in fit(config, tmp_path).history]
    assert rates == pytest.approx([peak / 2, peak, peak / 2])


def test_evaluation_is_without_dropout_and_changes_nothing(config: Config) -> None:
    model = build_model(config).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = evaluate(model, config, CPU)
    assert evaluate(model, config, CPU) == first
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_checkpoint_is_measured_as_it_was(config: Config, tmp_path: Path) -> None:
    state = fit(config, tmp_path)
    assert state.checkpoint is not None
    found = evaluate_checkpoint(state.checkpoint, config, CPU)
    for name in ("loss", "accuracy"):
        assert found[name] == pytest.approx(state.history[-1].scalars[f"val_{name}"], rel=1e-4)


def test_only_the_newest_and_the_best_checkpoint_are_kept(config: Config, tmp_path: Path) -> None:
    state = fit(replace(config, keep_checkpoints=1), tmp_path)
    kept = list((tmp_path / "checkpoints").glob("*.fdl"))
    assert state.checkpoint in kept
    assert len(kept) <= 2


def test_a_run_is_recorded(config: Config, tmp_path: Path) -> None:
    state = fit(config, tmp_path)
    assert stored(tmp_path) == config
    reader = open_reader(tmp_path)
    assert reader.run.status() == "finished"
    assert [each.metrics for each in reader.history()] == [each.scalars for each in state.history]


def test_a_run_without_a_logger_keeps_no_metrics(config: Config, tmp_path: Path) -> None:
    state = fit(replace(config, logger="none"), tmp_path)
    assert not list((tmp_path / "metrics").iterdir())
    assert state.checkpoint is not None


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_logger_gets_everything_beside_the_monitor(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made: list[str] = []

    def monitor(epochs: int, *, run: Path, sinks: list[str]) -> Monitor:
        made.extend(sinks)
        return Monitor(epochs, run=run)

    monkeypatch.setattr(configuration, "find_spec", lambda package: package)
    monkeypatch.setattr(train, "Monitor", monitor)
    fit(replace(config, logger=name), tmp_path)
    place = {
        "tensorboard": str(tmp_path / "tensorboard"),
        "wandb": "{{ package }}",
    }
    assert made == [f"{name}:{place[name]}"]
    assert open_reader(tmp_path).history()


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_logger_that_is_not_installed_is_named_before_anything_is_written(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(configuration, "find_spec", lambda package: None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        fit(replace(config, logger=name), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_stops_training(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(config: Config) -> nn.Module:
        model = build_model(config)
        with torch.no_grad():
            next(model.parameters()).fill_(float("nan"))
        return model

    monkeypatch.setattr(train, "build_model", spoilt)
    with pytest.raises(NonFiniteError, match="step 0"):
        fit(config, tmp_path)
    assert not list((tmp_path / "checkpoints").glob("*.fdl"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_mixed_precision_learns_on_a_gpu(config: Config, tmp_path: Path) -> None:
    words = ["train.device=cuda", "train.amp=true", "train.epochs=5"]
    history = fit(changed(config, words), tmp_path).history
    assert history[-1].avg_loss < history[0].avg_loss
