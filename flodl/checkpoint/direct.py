"""Bytes of a file straight into the memory of tensors, on several cores, without a map between them."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from flodl.checkpoint.format import xxhash
from flodl.checkpoint.sound import Stamp, stamp_of
from flodl.checkpoint.tensors import as_bytes
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

_WORTH_THREADS: Final = 32 << 20
_HOT: Final = 512 << 10  # bytes that the cache of a core still holds when they are hashed
_POSITIONAL: Final = "preadv" in dir(os)  # not on Windows


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file that belong into the memory of a tensor.

    Attributes:
        name: the tensor's name in the file.
        start: the first byte in the file.
        target: a tensor for which `takes_bytes` holds.
        checksum: the expected hash of the bytes, checked as they pass; empty if that was done before.
    """

    name: str
    start: int
    target: Tensor
    checksum: str = ""


@final
class DirectReader:
    """An open file whose tensors can be read into memory that is already there.

    Reading through a map costs a page fault for every few pages. Copying from it shares one pool of threads
    with torch, which waits at a barrier for cores that are busy. A plain read does neither.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._path = path
        # The same open file, not the same name: what is there under the name may be another by then.
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def stamp(self) -> Stamp:
        """Return the stamp of the open file."""
        return stamp_of(self._descriptor)

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Read tensors, each from its place in the file.

        Raises:
            CheckpointError: the file is shorter than when it was checked, cannot be read, or a checksum does
                not match.
        """
        if sum(each.target.nbytes for each in pieces) < _WORTH_THREADS:
            sound = [self._fill(each) for each in pieces]
        else:
            with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
                sound = list(pool.map(self._fill, pieces))
        # as copy_ does, for autograd's checks
        increment_version([each.target for each in pieces])
        if not all(sound):
            raise CheckpointError(
                "the file was damaged after it had been checked, and weights of the model are replaced "
                "already; load another copy",
                path=self._path,
                differences=tuple(
                    f"tensor {each.name!r} is damaged: its checksum does not match"
                    for each, good in zip(pieces, sound, strict=True)
                    if not good
                ),
            )

    def _fill(self, piece: Piece) -> bool:
        view = as_bytes(piece.target)
        seen = xxhash().xxh3_64() if piece.checksum else None
        step = _HOT if seen else len(view)
        done = 0
        while done < len(view):
            count = self._read(view[done : done + step], piece.start + done)
            if seen:
                seen.update(view[done : done + count])
            done += count
        return seen is None or seen.hexdigest() == piece.checksum

    def _read(self, view: memoryview, start: int) -> int:
        try:
            count = os.preadv(self._descriptor, [view], start)
        except OSError as error:
            raise CheckpointError(
                f"cannot be read ({error.strerror or error})", path=self._path
            ) from error
        if count == 0:
            raise CheckpointError(
                "the file became shorter while it was read; use another copy, and replace files "
                "instead of writing into them",
                path=self._path,
            )
        return count


def takes_bytes(target: Tensor, dtype: torch.dtype) -> bool:
    """Return True if the bytes of a tensor of a dtype may be read straight into the memory of another."""
    return (
        _POSITIONAL
        and type(target) in (Tensor, nn.Parameter)  # others may own no memory
        and target.device.type == "cpu"
        and target.dtype == dtype
        and target.layout is torch.strided
        and target.is_contiguous()
        and not (target.is_conj() or target.is_neg() or target.is_inference())
        and target.data_ptr() != 0
    )
