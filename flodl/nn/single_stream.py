"""torch's layers with several results or inputs, as modules with one of each, for use in a flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


class GRU(nn.GRU):
    """`nn.GRU` whose forward returns the sequence only; parameters and `state_dict` keys are torch's."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Return the output of every time step."""
        sequence, _ = super().forward(x, hidden)
        return sequence


class LSTM(nn.LSTM):
    """`nn.LSTM` whose forward returns the sequence only; parameters and `state_dict` keys are torch's."""

    def forward(  # type: ignore[override]
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Return the output of every time step."""
        sequence, _ = super().forward(x, hidden)
        return sequence


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` as self-attention on one stream `[B, T, D]`.

    With `key` (and `value`) it attends to another sequence.  Parameters and keys are torch's, and so are
    the settings, but for `batch_first`, which is always true.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, **settings: Any
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, batch_first=True, **settings)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        """Return what the stream gathers from `key`, which is the stream itself if not given."""
        source = x if key is None else key
        output, _ = super().forward(
            x,
            source,
            source if value is None else value,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            attn_mask=attn_mask,
        )
        return output

    def forward_named(self, x: Tensor, refs: Mapping[str, Tensor]) -> Tensor:
        """Attend to the references `key`, `value`, `mask` and `padding`, as far as they are given."""
        return self.forward(
            x,
            refs.get("key"),
            refs.get("value"),
            key_padding_mask=refs.get("padding"),
            attn_mask=refs.get("mask"),
        )
