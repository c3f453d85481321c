"""Parts of recent transformers: rotary positions and the gated feed-forward.

Shape suffixes: B batch, H heads, T positions, D features, F hidden features.

    q = rotary(self.q(x).view(B, T, H, D).transpose(1, 2))
    k = rotary(self.k(x).view(B, T, H, D).transpose(1, 2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Mapping


class RotaryEmbedding(nn.Module):
    """Rotates pairs of features by an angle that grows with the position: RoPE of queries and keys.

    Scores of rotated queries and keys depend on the distance of their positions only. There are no
    parameters and no buffers: the angles are computed in single precision in every call, so that a cast of
    the model does not spoil them and there is no longest sequence.

    Args:
        dim: how many features are rotated, the first ones, an even number; the others stay as they are.
        base: the wavelengths grow from 2 pi to nearly `2 pi * base`.
        interleaved: pairs are neighbours (GPT-J, the first LLaMA code); otherwise feature `i` and
            `i + dim / 2` are one (GPT-NeoX, LLaMA in transformers).

    Raises:
        ValueError: `dim` is not a positive even number.

    Example:
        >>> import torch
        >>> from flodl import RotaryEmbedding
        >>> q = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])  # two positions, one pair
        >>> RotaryEmbedding(2)(q)
        tensor([[[1.0000, 0.0000],
                 [0.5403, 0.8415]]])
    """

    def __init__(self, dim: int, *, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise ValueError(f"RotaryEmbedding rotates pairs: dim must be even, got {dim}")
        self.dim = dim
        self.base = base
        self.interleaved = interleaved

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` `[..., T, D]` with its first `dim` features rotated.

        Args:
            x: queries or keys `[..., T, D]`, such as `[B, H, T, D]`, with `D >= dim`.
            positions: the positions `[T]` or `[B, T]`, 0 to T - 1 if not given; with a cache they begin at
                its length. `[B, T]` belongs to an `x` whose first dimension is B.

        Raises:
            ValueError: `x` has fewer than `dim` features.
        """
        if x.shape[-1] < self.dim:
            raise ValueError(
                f"RotaryEmbedding({self.dim}) got an input of shape {tuple(x.shape)}, whose last "
                "dimension is smaller"
            )
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        cos, sin = self._tables(x, positions)
        if x.shape[-1] == self.dim:
            return x * cos + self._turned(x) * sin
        rotated = x[..., : self.dim]
        rotated = rotated * cos + self._turned(rotated) * sin
        return torch.cat((rotated, x[..., self.dim :]), dim=-1)

    def forward_named(self, x: Tensor, refs: Mapping[str, Tensor]) -> Tensor:
        """Rotate at the positions of the reference `positions`, if it is given."""
        return self.forward(x, refs.get("positions"))

    def extra_repr(self) -> str:
        """Return the settings for `repr`."""
        return f"{self.dim}, base={self.base}, interleaved={self.interleaved}"

    def _tables(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines that broadcast against `x`, in its dtype."""
        steps = torch.arange(0, self.dim, 2, device=x.device).float()
        inverse = 1.0 / (self.base ** (steps / self.dim))
        angles = positions[..., None].float() * inverse
        if self.interleaved:
            angles = angles.repeat_interleave(2, dim=-1)
        else:
            angles = torch.cat((angles, angles), dim=-1)
        if positions.ndim == 2:
            # [B, T, D] against [B, ..., T, D]
            batch, length, dim = angles.shape
            angles = angles.reshape(batch, *[1] * (x.ndim - 3), length, dim)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def _turned(self, x: Tensor) -> Tensor:
        """Return each pair (a, b) as (-b, a): a quarter of a turn."""
        if self.interleaved:
            pairs = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1)
            return pairs.flatten(-2)
        half = self.dim // 2
        return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class SwiGLU(nn.Module):
    """The gated feed-forward of recent transformers: `down(silu(gate(x)) * up(x))`.

    Args:
        in_features: size D of the last dimension of the input.
        hidden_features: size F of the hidden layer; if not given, two thirds of `4 * D`, rounded up to a
            multiple of 8, which has the parameters of a plain feed-forward of `4 * D`.
        out_features: size of the last dimension of the output, D if not given.
        bias: whether the three layers have a bias.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder, SwiGLU
        >>> graph = FlowBuilder.from_(SwiGLU(8)).build()
        >>> graph(torch.ones(2, 8)).shape
        torch.Size([2, 8])
        >>> SwiGLU(48).up.out_features
        128
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int | None = None,
        out_features: int | None = None,
        *,
        bias: bool = False,
    ) -> None:
        super().__init__()
        hidden = hidden_features
        if hidden is None:
            hidden = -(-8 * in_features // 3)
            hidden = -(-hidden // 8) * 8
        out = in_features if out_features is None else out_features
        self.gate = nn.Linear(in_features, hidden, bias=bias)
        self.up = nn.Linear(in_features, hidden, bias=bias)
        self.down = nn.Linear(hidden, out, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., D]` for an input `[..., D]`; the hidden layer is `[..., F]`."""
        gated: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return gated
