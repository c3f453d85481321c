"""A model whose assertion says nothing: pytest puts words into those of test modules."""

from __future__ import annotations

import torch
from torch import nn


class Mixer(nn.Module):
    """Mixes one tensor, which comes three times."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        assert query is key and key is value  # noqa: PT018  # as people write it
        mixed: torch.Tensor = self.fc(query)
        return mixed + value
