"""A configuration small enough for tests; one CPU thread, so that sums have one order."""

from collections.abc import Iterator

import pytest
import torch

from {{ package }}.config import (
    Config,
    DataConfig,
    ModelConfig,
    TrainConfig,
)


@pytest.fixture
def config() -> Config:
    return Config(
        name="test",
        seed=3,
        keep_checkpoints=9,
        data=DataConfig(samples=48, features=5, classes=3, batch_size=16),
        model=ModelConfig(width=8, blocks=2, dropout=0.3),
        train=TrainConfig(epochs=3, device="cpu"),
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
