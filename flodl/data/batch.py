"""One batch: tensors that are found by position or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

import torch

from flodl.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Fallback = TypeVar("Fallback")


@final
class Batch:
    """The tensors of one batch, all of the same first dimension, found by position or by name.

    Attributes:
        tensors: the parts in the order of the data set.
        names: one name per part; unnamed parts are called "0", "1", ...

    Example:
        >>> import torch
        >>> from flodl import Batch
        >>> batch = Batch((torch.zeros(3, 2), torch.ones(3)), names=("image", "label"))
        >>> image, label = batch
        >>> batch["label"] is label and batch[0] is image
        True
        >>> batch.size, "image" in batch
        (3, True)
    """

    __slots__ = ("names", "tensors")

    def __init__(
        self, tensors: Sequence[torch.Tensor], names: Sequence[str] | None = None
    ) -> None:
        self.tensors: tuple[torch.Tensor, ...] = tuple(tensors)
        self.names: tuple[str, ...] = (
            numbered(len(self.tensors)) if names is None else tuple(names)
        )

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.tensors[0].shape[0]

    def __getitem__(self, key: int | str) -> torch.Tensor:
        if isinstance(key, str):
            if key not in self.names:
                message = f"the batch has no part `{key}` (its parts: {', '.join(self.names)})"
                raise UnknownNameError(message)
            return self.tensors[self.names.index(key)]
        return self.tensors[key]

    def get(self, key: str, default: Fallback) -> torch.Tensor | Fallback:
        """Return a part by name, or the default if there is none of that name."""
        return self.tensors[self.names.index(key)] if key in self.names else default

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.tensors)

    def __len__(self) -> int:
        """Return the number of parts, so that unpacking and `len` agree; `size` counts samples."""
        return len(self.tensors)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """Return the batch on a device."""
        moved = tuple(each.to(device, non_blocking=non_blocking) for each in self.tensors)
        return Batch(moved, self.names)

    def as_dict(self) -> dict[str, torch.Tensor]:
        """Return the parts by name, as keyword arguments of a model for instance."""
        return dict(zip(self.names, self.tensors, strict=True))

    def __repr__(self) -> str:
        parts = (
            f"{name}: {str(each.dtype).removeprefix('torch.')}{list(each.shape)}"
            for name, each in zip(self.names, self.tensors, strict=True)
        )
        return f"Batch({', '.join(parts)})"


def numbered(count: int) -> tuple[str, ...]:
    """Return the default names of unnamed parts."""
    return tuple(str(index) for index in range(count))
