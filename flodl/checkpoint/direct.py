"""Bytes of a file straight into the memory of tensors, on several cores, without a map between them."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from flodl.checkpoint.tensors import as_bytes
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

_WORTH_THREADS: Final = 32 << 20
_POSITIONAL: Final = "preadv" in dir(os)  # not on Windows


@final
class DirectReader:
    """An open file whose tensors can be read into memory that is already there.

    Reading through a map costs a page fault for every few pages, and copying from it shares one pool of
    threads with torch, which waits at a barrier for cores that are busy; a plain read does neither.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._path = path
        # The same open file, not the same name: what is there under the name may be another by then.
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def fill(self, targets: Sequence[tuple[int, Tensor]]) -> None:
        """Read tensors for which `takes_bytes` holds, each from its place in the file.

        Raises:
            CheckpointError: the file is shorter than when it was checked, or cannot be read.
        """
        if sum(target.nbytes for _, target in targets) < _WORTH_THREADS:
            for start, target in targets:
                self._fill(start, target)
        else:
            with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
                list(pool.map(lambda each: self._fill(*each), targets))
        increment_version(
            [target for _, target in targets]
        )  # as copy_ does, for autograd's checks

    def _fill(self, start: int, target: Tensor) -> None:
        view = as_bytes(target)
        done = 0
        while done < len(view):
            try:
                count = os.preadv(self._descriptor, [view[done:]], start + done)
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
            done += count


def takes_bytes(target: Tensor, dtype: torch.dtype) -> bool:
    """Say whether the bytes of a tensor of a dtype may be read straight into the memory of another."""
    return (
        _POSITIONAL
        and type(target) in (Tensor, nn.Parameter)  # others may be no memory of their own
        and target.device.type == "cpu"
        and target.dtype == dtype
        and target.layout is torch.strided
        and target.is_contiguous()
        and not (target.is_conj() or target.is_neg() or target.is_inference())
        and target.data_ptr() != 0
    )
