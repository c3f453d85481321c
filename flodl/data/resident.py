"""The whole data set on the device: a batch is one gather per part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from flodl.errors import DataError

if TYPE_CHECKING:
    from flodl.data.sources import AbstractSource, Tensors

_CHUNK: Final = 1024


def load(source: AbstractSource, device: torch.device) -> Tensors:
    """Return all samples on a device; tensors that are there already are not copied.

    Raises:
        DataError: samples have different shapes.
    """
    if source.tensors is not None:
        return tuple(each.to(device) for each in source.tensors)
    kept: list[torch.Tensor] = []
    for start in range(0, source.length, _CHUNK):
        stop = min(start + _CHUNK, source.length)
        parts = source.fetch(torch.arange(start, stop))
        if not kept:
            kept = [_empty(source.length, part, device) for part in parts]
        _store(kept, parts, start, stop, source.label)
    return tuple(kept)


def _empty(length: int, part: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty((length, *part.shape[1:]), dtype=part.dtype, device=device)


def _store(kept: list[torch.Tensor], parts: Tensors, start: int, stop: int, label: str) -> None:
    if len(parts) != len(kept):
        raise DataError(f"items of {label} have different numbers of parts")
    for whole, part in zip(kept, parts, strict=True):
        if part.shape[1:] != whole.shape[1:] or part.dtype != whole.dtype:
            raise DataError(
                f"samples {start} to {stop - 1} of {label} have shape {list(part.shape[1:])} and type "
                f"{part.dtype}; those before have {list(whole.shape[1:])} and {whole.dtype}"
            )
        whole[start:stop].copy_(part)
