"""Stopped anywhere and resumed, a training ends with the same bits as one that was not stopped."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, TensorDataset

from flodl import (
    CheckpointError,
    CosineScheduler,
    PlateauScheduler,
    RunDirectory,
    RunError,
    Trainer,
    TrainingError,
    TrainingSnapshot,
)

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 80 * 3).reshape(80, 3)
Y = X.square().sum(1, keepdim=True)


def model():
    return nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Dropout(0.4), nn.Linear(6, 1))


def train_step(model, batch):
    loss = F.mse_loss(model(batch[0]), batch[1])
    return loss, {"double": loss.detach() * 2}


def adam(params):
    return torch.optim.Adam(params, lr=1e-2)


def training(data=None):
    builder = Trainer.builder(model, adam, train_step).seed(5).step("eager").progress(False)
    return builder.dataset([X, Y] if data is None else data).batch_size(8)


SCHEDULES = {
    "none": lambda each: each,
    "cosine": lambda each: each.scheduler(CosineScheduler(1e-2, 1e-4, 25)),
    "by epoch": lambda each: each.scheduler(CosineScheduler(1e-2, 1e-4, 3), every="epoch"),
    "plateau": lambda each: each.scheduler(PlateauScheduler(1e-2, 1, 0.5), metric="loss"),
    "torch step": lambda each: each.scheduler(
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-2, total_steps=100), every="step"
    ),
    "torch epoch": lambda each: each.scheduler(
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch)
    ),
    "torch plateau": lambda each: each.scheduler(
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0), metric="loss"
    ),
}


def same(first, second):
    assert first.state_dict().keys() == second.state_dict().keys()
    for name, each in first.state_dict().items():
        assert torch.equal(each, second.state_dict()[name]), name
    assert first.averages.keys() == second.averages.keys()
    assert all(torch.equal(first.averages[name], second.averages[name]) for name in first.averages)
    assert first.history[-1].scalars == second.history[-1].scalars
    assert first.history[-1].lr == second.history[-1].lr


@pytest.mark.slow
@settings(max_examples=25)
@given(
    stops=st.lists(st.integers(1, 29), min_size=1, max_size=3, unique=True).map(sorted),
    accumulate=st.integers(1, 4),
    schedule=st.sampled_from(sorted(SCHEDULES)),
    ema=st.sampled_from([None, 0.8]),
    evaluated=st.booleans(),
)
def test_a_resumed_training_is_the_same(
    tmp_path_factory, stops, accumulate, schedule, ema, evaluated
):
    folder = tmp_path_factory.mktemp("run") / "r"

    def prepared():
        builder = SCHEDULES[schedule](training()).num_epochs(3).accumulate(accumulate)
        builder.max_grad_norm(1.0)
        if ema:
            builder.ema(ema)
        if evaluated:
            builder.evaluate([(X, Y)])
        return builder

    whole = prepared().run().join()
    for stop in stops:
        part = prepared().run_dir(folder).resume().max_steps(stop).run().join()
        assert part.stopped_by == f"max_steps={stop}"
        assert part.steps == stop
        torch.rand(7)  # another process has other random numbers
        random.random()
    same(whole, prepared().run_dir(folder).resume().run().join())


class Noisy(Dataset):
    """Samples that draw from every generator there is in this process."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        noise = torch.rand(3) + random.random() + float(np.random.rand())
        return X[index] + 0.1 * noise, Y[index]


@pytest.mark.slow
@settings(max_examples=6)
@given(stop=st.integers(1, 14))
@pytest.mark.parametrize("kind", ["plain", "noisy"])
def test_loaders_of_torch_continue_in_the_same_order(tmp_path_factory, kind, stop):
    folder = tmp_path_factory.mktemp("run") / "r"
    data = Noisy() if kind == "noisy" else TensorDataset(X[:40], Y[:40])

    def prepared():
        loader = TorchLoader(data, batch_size=8, shuffle=True)
        return (
            Trainer.builder(model, adam, train_step)
            .dataset(loader)
            .num_epochs(3)
            .seed(1)
            .step("eager")
            .progress(False)
        )

    whole = prepared().run().join()
    prepared().run_dir(folder).max_steps(stop).run()
    same(whole, prepared().run_dir(folder).resume().run().join())


def test_a_metric_history_continues(tmp_path):
    whole = training().num_epochs(4).early_stop("loss", patience=99).run().join()
    seen = []
    for epochs in (2, 4):
        builder = training().num_epochs(epochs).early_stop("loss", patience=99)
        builder.run_dir(tmp_path / "r").resume()
        builder.on("epoch", lambda training, metrics: seen.append(training.trend("loss").values))
        builder.run()
    assert seen[-1] == tuple(each.avg_loss for each in whole.history)


def test_an_early_stop_is_not_undone_by_a_resume(tmp_path):
    def prepared():
        builder = training().num_epochs(50).run_dir(tmp_path / "r").resume()
        return builder.stop_when("loss", lambda trend: len(trend) >= 3)

    first = prepared().run().join()
    again = prepared().run().join()
    assert first.epochs == again.epochs == 3
    assert again.stopped_by.startswith("early stop")
    assert again.history == ()


def test_a_finished_run_is_finished(tmp_path):
    first = training().num_epochs(2).run_dir(tmp_path / "r").run().join()
    again = training().num_epochs(2).run_dir(tmp_path / "r").resume().run().join()
    assert again.stopped_by == "finished"
    assert again.steps == first.steps
    assert torch.equal(again.parameters["0.weight"], first.parameters["0.weight"])
    longer = training().num_epochs(3).run_dir(tmp_path / "r").resume().run().join()
    same(training().num_epochs(3).run().join(), longer)


def test_a_run_is_not_overwritten(tmp_path):
    training().num_epochs(1).run_dir(tmp_path / "r").run()
    with pytest.raises(TrainingError, match=r"begun here already; continue it with resume"):
        training().num_epochs(1).run_dir(tmp_path / "r").run()


def test_from_a_checkpoint_file_and_from_another_run(tmp_path):
    whole = training().num_epochs(2).run().join()
    part = training().num_epochs(2).max_steps(13).run_dir(tmp_path / "a").run().join()
    same(whole, training().num_epochs(2).resume(part.checkpoint).run().join())
    same(whole, training().num_epochs(2).resume(tmp_path / "a").run().join())
    same(whole, training().num_epochs(2).resume(RunDirectory.open(tmp_path / "a")).run().join())


def test_where_there_is_nothing_to_resume(tmp_path):
    with pytest.raises(TrainingError, match=r'resume\("auto"\) needs a run directory'):
        training().resume().run()
    with pytest.raises(RunError, match="no run here"):
        training().resume(tmp_path).run()
    RunDirectory.create(tmp_path, "empty")
    with pytest.raises(TrainingError, match="no checkpoint to resume from"):
        training().resume(tmp_path / "empty").run()
    fresh = training().num_epochs(1).run_dir(tmp_path / "new").resume("auto").run().join()
    assert fresh.steps == 10


def test_another_model_does_not_fit(tmp_path):
    training().num_epochs(1).run_dir(tmp_path / "r").run()
    other = (
        Trainer.builder(lambda: nn.Linear(3, 1), adam, train_step).dataset([X, Y]).batch_size(8)
    )
    with pytest.raises(CheckpointError):
        other.run_dir(tmp_path / "r").resume().step("eager").progress(False).run()


def test_what_has_changed_is_said(tmp_path):
    training().num_epochs(1).run_dir(tmp_path / "r").run()
    changed = training().num_epochs(2).max_grad_norm(0.5).batch_size(4).run_dir(tmp_path / "r")
    said = changed.resume().run().join().notices
    assert any("`clip_norm` was None, is 0.5" in line for line in said)
    assert any("`batches` was 10, is 20" in line for line in said)
    assert any(line.startswith("resumed from") for line in said)


def test_the_newest_whole_checkpoint_is_taken(tmp_path):
    whole = training().num_epochs(3).run().join()
    part = training().num_epochs(3).max_steps(25).run_dir(tmp_path / "r").run().join()
    data = bytearray(part.checkpoint.read_bytes())
    data[-5] ^= 255
    part.checkpoint.write_bytes(data)
    rest = training().num_epochs(3).run_dir(tmp_path / "r").resume().run().join()
    assert any("passed over a damaged checkpoint" in line for line in rest.notices)
    same(whole, rest)


def test_a_full_disk_does_not_end_the_training(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise CheckpointError("cannot be written (No space left on device)")

    monkeypatch.setattr(TrainingSnapshot, "save", refused)
    state = training().num_epochs(2).run_dir(tmp_path / "r").run().join()
    assert state.stopped_by == "finished"
    assert sum("No space left" in line for line in state.notices) == 2
    assert state.checkpoint is None


def test_what_stays_on_disk(tmp_path):
    builder = training().num_epochs(5).run_dir(tmp_path / "r")
    state = builder.checkpoints(steps=4, keep_last=2, keep_best=1).run().join()
    checkpoints = RunDirectory.open(tmp_path / "r").checkpoints
    steps = [each.step for each in checkpoints.entries()]
    assert steps[-2:] == [48, 50]
    assert len(steps) <= 3
    assert checkpoints.latest().path == state.checkpoint
    assert checkpoints.best().metrics["loss"] == min(each.avg_loss for each in state.history)
