"""Loaders in a training: samples that draw random numbers, streams, and what a resume sees."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import data as torch_data

from flodl import DataLoader, Trainer


class Augmented(torch_data.Dataset):
    """Noise and flips from the global generators."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        x = torch.full((4,), index / 40)
        return (x if random.random() < 0.5 else -x) + 0.1 * torch.randn(4)


class AugmentedStream(torch_data.IterableDataset):
    def __iter__(self):
        return (Augmented()[index] for index in range(40))


def train(data, folder=None, steps=None, **settings):
    builder = (
        Trainer.builder(
            lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 4)),
            lambda parameters: torch.optim.Adam(parameters, lr=0.01),
            lambda model, batch: F.mse_loss(model(batch[0]), batch[0]),
        )
        .dataset(DataLoader(data, 4, **settings))
        .num_epochs(3).seed(1).step("eager").progress(False)
    )  # fmt: skip
    if folder is not None:
        builder = builder.run_dir(folder).resume()
    if steps is not None:
        builder = builder.max_steps(steps)
    return builder.run().join()


@pytest.mark.slow
@pytest.mark.parametrize("data", [Augmented(), AugmentedStream(), torch.rand(40, 4)], ids=type)
@pytest.mark.parametrize("steps", [7, 10, 23])
def test_a_resumed_training_sees_the_same_samples_and_dropout(data, steps, tmp_path):
    whole = train(data)
    first = train(data, tmp_path, steps)
    assert first.steps == steps
    random.seed(99)
    second = train(data, tmp_path)
    assert second.steps == whole.steps == 30
    for name, value in whole.parameters.items():
        assert torch.equal(value, second.parameters[name]), name


def test_the_place_of_the_data_does_not_change_a_training():
    data = torch.rand(40, 4)
    one, two, three = (
        train(data, mode="resident"),
        train(data, mode="streaming"),
        train(data, mode="streaming", prefetch=0),
    )
    for name, value in one.parameters.items():
        assert torch.equal(value, two.parameters[name])
        assert torch.equal(value, three.parameters[name])


def test_a_loader_moves_to_another_device_with_its_order():
    loader = DataLoader(torch.rand(40, 4), 4, seed=3, names=["x"])
    assert loader.on("cpu") is loader
    there = loader.on("meta")
    assert there.sampler is loader.sampler
    assert there.device.type == "meta"
    assert loader.device.type == "cpu"
    batch = next(there.epoch(0))
    assert batch["x"].device.type == "meta"
    assert there.identity() == loader.identity()


def test_what_is_made_in_the_background():
    assert DataLoader(torch.rand(8, 1), 2).in_background
    assert DataLoader([(1,)] * 8, 2, mode="streaming").in_background
    assert not DataLoader([(1,)] * 8, 2, mode="streaming", prefetch=0).in_background
    assert not DataLoader(Augmented(), 2).in_background
    assert DataLoader(Augmented(), 2, workers=1).in_background
    assert not DataLoader(AugmentedStream(), 2).in_background
