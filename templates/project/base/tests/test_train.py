"""The loop learns, repeats itself exactly, resumes exactly, and refuses to spoil the weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from {{ package }} import checkpoint
from {{ package }}.config import Config
from {{ package }}.data import make_loader
from {{ package }}.evaluate import evaluate, evaluate_checkpoint
from {{ package }}.train import (
    NonFiniteLossError,
    Training,
    fit,
    start,
    train_epoch,
)

CPU = torch.device("cpu")


def weights(training: Training) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_two_runs_are_equal(config: Config, tmp_path: Path) -> None:
    first = start(config)
    fit(first, tmp_path / "a")
    second = start(config)
    fit(second, tmp_path / "b")
    assert equal(weights(first), weights(second))


def test_resume_is_exact(config: Config, tmp_path: Path) -> None:
    config = replace(config, keep_checkpoints=9)
    whole = start(config)
    fit(whole, tmp_path / "whole")
    torch.manual_seed(12345)  # a new process has another state
    resumed = start(config)
    resumed.load(checkpoint.load(tmp_path / "whole" / "epoch-0001.pt"))
    fit(resumed, tmp_path / "resumed")
    assert resumed.epoch == whole.epoch
    assert equal(weights(whole), weights(resumed))
    whole_lines = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    assert (tmp_path / "resumed" / "metrics.jsonl").read_text().splitlines() == whole_lines[1:]


def test_a_batch_is_learnt_by_heart(no_dropout: Config, tmp_path: Path) -> None:
    train = replace(no_dropout.train, epochs=60, warmup_epochs=0, learning_rate=1e-2)
    data = replace(no_dropout.data, samples=16, noise=0.1)
    training = start(replace(no_dropout, train=train, data=data))
    history = fit(training, tmp_path)
    assert history[-1]["train_loss"] < 0.05 < history[0]["train_loss"]


def test_gradients_do_not_leak_into_the_next_step(no_dropout: Config) -> None:
    config = replace(no_dropout, train=replace(no_dropout.train, clip_norm=1e9))
    batches = list(make_loader(config.data, config.seed, "train", 0))[:2]
    training, by_hand = start(config), start(config)
    train_epoch(training, iter(batches))
    for features, labels in batches:
        by_hand.optimizer.zero_grad()
        F.cross_entropy(by_hand.model(features), labels).backward()
        by_hand.optimizer.step()
    assert equal(weights(training), weights(by_hand))


def test_accumulation_is_one_large_batch(no_dropout: Config) -> None:
    (large,) = list(make_loader(replace(no_dropout.data, batch_size=48), 0, "train", 0))
    halves = [(large[0][:24], large[1][:24]), (large[0][24:], large[1][24:])]
    one = start(no_dropout)
    two = start(replace(no_dropout, train=replace(no_dropout.train, accumulate=2)))
    train_epoch(one, iter([large]))
    train_epoch(two, iter(halves))
    for name, value in weights(one).items():
        torch.testing.assert_close(value, weights(two)[name], rtol=1e-3, atol=1e-4)


def test_the_learning_rate_follows_its_schedule(config: Config, tmp_path: Path) -> None:
    peak = config.train.learning_rate
    rates = [line["learning_rate"] for line in fit(start(config), tmp_path)]
    assert rates == pytest.approx([peak / 2, peak, peak / 2])


def test_evaluation_is_without_dropout_and_changes_nothing(config: Config) -> None:
    training = start(config)
    training.model.train()
    before = weights(training)
    first = evaluate(training.model, config, CPU)
    assert evaluate(training.model, config, CPU) == first
    assert training.model.training
    assert equal(before, weights(training))


def test_a_checkpoint_is_measured_as_it_was(config: Config, tmp_path: Path) -> None:
    history = fit(start(config), tmp_path)
    newest = checkpoint.latest(tmp_path)
    assert newest is not None
    found = evaluate_checkpoint(newest)
    assert found["loss"] == pytest.approx(history[-1]["valid_loss"])


def test_a_loss_that_is_not_finite_stops_training(config: Config) -> None:
    training = start(config)
    with torch.no_grad():
        next(training.model.parameters()).fill_(float("nan"))
    before = weights(training)
    batches = make_loader(config.data, config.seed, "train", 0)
    with pytest.raises(NonFiniteLossError, match="epoch 0"):
        train_epoch(training, iter(batches))
    name = [n for n, _ in training.model.named_parameters()][-1]
    assert torch.equal(before[name], training.model.state_dict()[name])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_mixed_precision_learns_on_a_gpu(config: Config, tmp_path: Path) -> None:
    train = replace(config.train, device="cuda", amp=True, epochs=5)
    history = fit(start(replace(config, train=train)), tmp_path)
    assert history[-1]["train_loss"] < history[0]["train_loss"]


def test_the_model_is_a_module(config: Config) -> None:
    assert isinstance(start(config).model, nn.Module)
