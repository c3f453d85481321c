"""A classification data set that needs no download: noisy points around random centres."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from {{ package }}.config import DataConfig

Batch = tuple[Tensor, ...]
SPLITS = {"train": 0, "valid": 1}


def make_dataset(config: DataConfig, seed: int, split: str) -> Dataset[Batch]:
    """Return one split; both splits share their centres and differ in their points."""
    centres_rng = torch.Generator().manual_seed(seed)
    centres = torch.randn(config.classes, config.features, generator=centres_rng)
    rng = torch.Generator().manual_seed(seed + 1 + SPLITS[split])
    count = config.samples if split == "train" else max(config.classes, config.samples // 4)
    labels = torch.randint(config.classes, (count,), generator=rng)
    noise = torch.randn(count, config.features, generator=rng)
    return TensorDataset(centres[labels] + config.noise * noise, labels)


def make_loader(config: DataConfig, seed: int, split: str, epoch: int) -> DataLoader[Batch]:
    """Return the batches of one epoch; their order depends on the seed and the epoch only."""
    order = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return DataLoader(
        make_dataset(config, seed, split),
        batch_size=config.batch_size,
        shuffle=split == "train",
        num_workers=config.workers,
        generator=order,
        persistent_workers=False,
    )
