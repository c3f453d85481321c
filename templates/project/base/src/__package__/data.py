"""A classification data set that needs no download: noisy points around random centres."""

import torch
from flodl import DataLoader
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from {{ package }}.config import DataConfig

SPLITS = {"train": 0, "valid": 1}


def make_dataset(config: DataConfig, seed: int, split: str) -> Dataset[tuple[Tensor, ...]]:
    """Return one split; both splits share their centres and differ in their points."""
    centres_rng = torch.Generator().manual_seed(seed)
    centres = torch.randn(config.classes, config.features, generator=centres_rng)
    rng = torch.Generator().manual_seed(seed + 1 + SPLITS[split])
    count = config.samples if split == "train" else max(config.classes, config.samples // 4)
    labels = torch.randint(config.classes, (count,), generator=rng)
    noise = torch.randn(count, config.features, generator=rng)
    return TensorDataset(centres[labels] + config.noise * noise, labels)


def make_loader(config: DataConfig, seed: int, split: str) -> DataLoader:
    """Return the batches of a split; a batch depends on the seed, the epoch and its place only."""
    return DataLoader(
        make_dataset(config, seed, split),
        batch_size=config.batch_size,
        shuffle=split == "train",
        drop_last=False,
        seed=seed,
        workers=config.workers,
    )
