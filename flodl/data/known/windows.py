"""Windows over a row of tokens, each with the same window one token later as its target."""

from __future__ import annotations

import torch
from torch import Tensor


def windows_in(tokens: int, length: int, stride: int) -> int:
    """Return how many windows fit into a row; each needs one token more, for its target."""
    return max(0, (tokens - length - 1) // stride + 1)


def windows_of(tokens: Tensor, starts: Tensor, length: int) -> dict[str, Tensor]:
    """Return `input` and `target`, both `[B, length]`, for windows that begin at `starts [B]`."""
    rows = tokens[starts[:, None] + torch.arange(length + 1)]
    return {"input": rows[:, :-1].contiguous(), "target": rows[:, 1:].contiguous()}
