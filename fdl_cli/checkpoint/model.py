"""Contents of a checkpoint file, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.errors import OperationFailedError

MOST_DIMENSIONS: Final = 64  # as torch; a product of thousands of factors takes quadratic time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor: `start` and `end` count bytes of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self.end - self.start


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """A file whose header was read and found consistent.

    `data` is the uncompressed content; `version` is 0 for plain safetensors, 1 and 2 for files of the
    Rust framework, 3 for ours.  `sealed` says that checksums cover every byte.
    """

    path: Path
    data: memoryview
    version: int
    sealed: bool
    metadata: Mapping[str, str]
    tensors: tuple[StoredTensor, ...]

    def content(self, tensor: StoredTensor) -> memoryview:
        """Return the bytes of a tensor."""
        return self.data[tensor.start : tensor.end]


def damaged(path: Path, reason: str) -> OperationFailedError:
    """Return the error for a file that is not a whole checkpoint."""
    return OperationFailedError(
        error_id="checkpoint-damaged",
        message=f"{path}: {reason}",
        hint="use another copy of the file; nothing can be repaired from this one",
        file=str(path),
    )
