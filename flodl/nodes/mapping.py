"""Running a stage on parts of a value: elements of the batch, slices of any dimension or of the features.

Shape suffixes: B batch, D features, L all leading dimensions, n slices.
"""

from __future__ import annotations

from typing import Any

import torch

from flodl.errors import GraphError
from flodl.nodes.stages import apply_stage


def map_each(x_B: torch.Tensor, body: Any, batched: bool) -> torch.Tensor:
    """Run the body on every element of dimension 0 (kept, of size 1) and join the results.

    Args:
        x_B: the stream, `[B, ...]`; an empty batch comes back as it is.
        body: a stage.
        batched: run the body once on the whole batch; the same for bodies that treat rows alike.
    """
    if x_B.size(0) == 0:
        return x_B
    if batched:
        result: torch.Tensor = apply_stage(body, x_B)
        return result
    return torch.cat([apply_stage(body, x_B.narrow(0, i, 1)) for i in range(x_B.size(0))])


def map_slices(x_LD: torch.Tensor, body: Any, n: int, batched: bool) -> torch.Tensor:
    """Cut the last dimension into `n` equal slices, run the body on each, and join the results.

    Args:
        x_LD: at least two dimensions; the last one must be divisible by `n`.
        body: a stage from `[rows, D / n]` to `[rows, out]`.
        n: number of slices.
        batched: give the body all rows at once instead of one at a time.

    Returns:
        `[L, out * n]`.

    Raises:
        GraphError: the value has fewer than two dimensions, or its last one cannot be divided.
    """
    if x_LD.dim() < 2 or x_LD.size(-1) % n:
        message = (
            f"map over {n} slices got shape {list(x_LD.shape)}; the last dimension must be n x m"
        )
        raise GraphError(message)
    leading = x_LD.shape[:-1]
    rows = map_each(x_LD.reshape(-1, x_LD.size(-1) // n), body, batched)
    return rows.reshape(*leading, -1)


def map_along(x: torch.Tensor, body: Any, dim: int, out_dim: int) -> torch.Tensor:
    """Run the body on every slice along a dimension, which it sees without it, and stack the results.

    Args:
        x: the stream; along `dim` it has at least one slice.
        body: a stage.
        dim: the dimension that is taken apart.
        out_dim: the new dimension along which the results are stacked.
    """
    # `select` and not `unbind`: gradients then add up as those of `x[:, i]` do, bit by bit.
    return torch.stack(
        [apply_stage(body, x.select(dim, i)) for i in range(x.size(dim))], dim=out_dim
    )
