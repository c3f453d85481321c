"""A Gaussian blur of images, for preprocessing; no gradient flows through it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


def _kernel(sigma: float, like: Tensor) -> Tensor:
    radius = math.ceil(3 * sigma)
    offsets = torch.arange(-radius, radius + 1, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * (offsets / sigma) ** 2)
    return weights / weights.sum()


@torch.no_grad()
def gaussian_blur_2d(x: Tensor, sigma: float) -> Tensor:
    """Blur images `[B, C, H, W]`: a kernel of `2 * ceil(3 * sigma) + 1` per axis, zeros outside.

    Raises:
        ValueError: `sigma` is not positive, or the input has another number of dimensions.
    """
    if sigma <= 0:
        raise ValueError(f"gaussian_blur_2d needs sigma > 0, got {sigma}")
    if x.ndim != 4:
        raise ValueError(f"gaussian_blur_2d takes images [B, C, H, W], got shape {tuple(x.shape)}")
    kernel = _kernel(sigma, x)
    channels, radius = x.shape[1], len(kernel) // 2
    rows = kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1)
    columns = kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    across = F.conv2d(x, rows, padding=(0, radius), groups=channels)
    return F.conv2d(across, columns, padding=(radius, 0), groups=channels)


class GaussianBlur(nn.Module):
    """`gaussian_blur_2d` as a module, for use as a node of a graph."""

    def __init__(self, sigma: float) -> None:
        super().__init__()
        if sigma <= 0:
            raise ValueError(f"GaussianBlur needs sigma > 0, got {sigma}")
        self.sigma = sigma

    def forward(self, x: Tensor) -> Tensor:
        """Return the blurred images."""
        return gaussian_blur_2d(x, self.sigma)

    def extra_repr(self) -> str:
        """Return the setting for `repr`."""
        return f"sigma={self.sigma}"
