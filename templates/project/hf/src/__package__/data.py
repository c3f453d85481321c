"""Texts to classify that need no download: each class prefers words of its own."""

import torch
from flodl import DataLoader
from torch.utils.data import TensorDataset

from {{ package }}.config import DataConfig

PADDING, START, VOCABULARY = 0, 1, 64  # the words are the tokens from 2 on


def make_dataset(config: DataConfig, seed: int, split: str) -> TensorDataset:
    """Return tokens, mask and label of each text; both splits share the words of their classes."""
    topics_rng = torch.Generator().manual_seed(seed)
    topics = torch.randn(config.classes, VOCABULARY - 2, generator=topics_rng)
    rng = torch.Generator().manual_seed(seed + 1 + (split == "valid"))
    count = config.samples if split == "train" else max(config.classes, config.samples // 4)
    labels = torch.randint(config.classes, (count,), generator=rng)
    chances = (topics[labels] / max(config.noise, 1e-3)).softmax(1)
    tokens = 2 + torch.multinomial(chances, config.features, replacement=True, generator=rng)
    tokens[:, 0] = START
    sizes = torch.randint(4 * config.features // 5, config.features + 1, (count, 1), generator=rng)
    tokens[torch.arange(config.features) >= sizes] = PADDING
    return TensorDataset(tokens, (tokens != PADDING).long(), labels)


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
