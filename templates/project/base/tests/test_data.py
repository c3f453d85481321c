"""Batches depend on the seed, the epoch and their place, and on nothing else."""

import torch

from {{ package }}.config import Config
from {{ package }}.data import make_loader


def points(config: Config, split: str, epoch: int, seed: int = 3, start: int = 0) -> torch.Tensor:
    loader = make_loader(config.data, seed, split)
    return torch.cat([batch[0] for batch in loader.epoch(epoch, start)])


def rows(found: torch.Tensor) -> list[tuple[float, ...]]:
    return sorted(tuple(row) for row in found.tolist())


def test_same_seed_and_epoch_same_order(config: Config) -> None:
    first = points(config, "train", 1)
    torch.manual_seed(999)  # the global state must not matter
    assert torch.equal(first, points(config, "train", 1))


def test_every_epoch_is_a_new_order_of_the_same_points(config: Config) -> None:
    first, second = points(config, "train", 0), points(config, "train", 1)
    assert not torch.equal(first, second)
    assert rows(first) == rows(second)


def test_an_epoch_continues_where_it_was_left(config: Config) -> None:
    whole = points(config, "train", 1)
    assert torch.equal(whole[16:], points(config, "train", 1, start=1))


def test_another_seed_is_other_points(config: Config) -> None:
    assert not torch.equal(points(config, "train", 0), points(config, "train", 0, seed=4))


def test_validation_is_other_points_in_a_fixed_order(config: Config) -> None:
    valid = points(config, "valid", 0)
    assert torch.equal(valid, points(config, "valid", 5))
    assert not set(rows(valid)) & set(rows(points(config, "train", 0)))
