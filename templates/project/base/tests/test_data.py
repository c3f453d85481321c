"""Batches depend on the seed and the epoch, and on nothing else."""

import torch

from {{ package }}.config import Config
from {{ package }}.data import make_loader


def labels(config: Config, split: str, epoch: int, seed: int | None = None) -> torch.Tensor:
    loader = make_loader(config.data, config.seed if seed is None else seed, split, epoch)
    return torch.cat([batch[0][:, 0] for batch in loader])


def test_same_seed_and_epoch_same_order(config: Config) -> None:
    first = labels(config, "train", 1)
    torch.manual_seed(999)  # the global state must not matter
    assert torch.equal(first, labels(config, "train", 1))


def test_every_epoch_is_a_new_order_of_the_same_points(config: Config) -> None:
    first, second = labels(config, "train", 0), labels(config, "train", 1)
    assert not torch.equal(first, second)
    assert torch.equal(first.sort().values, second.sort().values)


def test_another_seed_is_another_order(config: Config) -> None:
    loaders = [make_loader(config.data, seed, "train", 0) for seed in (1, 2)]
    orders = [
        torch.randperm(1000, generator=torch.Generator().set_state(loader.generator.get_state()))
        for loader in loaders
        if loader.generator is not None
    ]
    assert len(orders) == 2
    assert not torch.equal(orders[0], orders[1])


def test_validation_is_other_points_in_a_fixed_order(config: Config) -> None:
    valid = labels(config, "valid", 0)
    assert torch.equal(valid, labels(config, "valid", 5))
    assert not set(valid.tolist()) & set(labels(config, "train", 0).tolist())
