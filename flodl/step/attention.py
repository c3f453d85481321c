"""Attention as compilers take it: without weights that are never read, and without an empty cache."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence


def without_weights(model: nn.Module) -> int:
    """Let the attention layers of a model, a copy, leave out their weights where the call does not decide.

    Returns:
        How many layers there are.
    """
    layers = [each for each in model.modules() if type(each) is nn.MultiheadAttention]
    for layer in layers:
        # Beside the class, so that the copy alone is different.
        vars(layer)["forward"] = partial(layer.forward, need_weights=False)
    return len(layers)


def joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return several tensors as one, where all but one are empty; others are left to the kernel.

    The keys of a first call are joined with those of an empty cache. The kernel makes new rows of them. A
    compiler keeps the strides that they have, and later views no longer fit.
    """
    del dim
    full = [each for each in tensors if each.shape != (0,)]
    if len(full) != 1 or any(each.dtype != full[0].dtype for each in tensors):
        return NotImplemented  # type: ignore[no-any-return]
    (only,) = full
    # Four directions with the channels last stay so.
    if only.dim() >= 4 and not only.is_contiguous() and _has_last_channels(only):
        return NotImplemented  # type: ignore[no-any-return]
    return only.clone(memory_format=torch.contiguous_format)


def _has_last_channels(tensor: Tensor) -> bool:
    forms = {4: torch.channels_last, 5: torch.channels_last_3d}
    form = forms.get(tensor.dim())
    return form is not None and tensor.is_contiguous(memory_format=form)
