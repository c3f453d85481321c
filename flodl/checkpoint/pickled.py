"""Weights from files of `torch.save`, through torch's restricted unpickler: no code in the file can run."""

from __future__ import annotations

import pickle
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

import torch

from flodl.checkpoint.sizes import most_unpacked, too_large
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

ZIP_MAGIC: Final = b"PK\x03\x04"
# Errors of torch's reader on bytes that are no such file.
_DAMAGE: Final = (
    RuntimeError, EOFError, ValueError, LookupError, OSError, AttributeError, TypeError, AssertionError,
    struct.error, zipfile.BadZipFile, ArithmeticError, MemoryError,
)  # fmt: skip
# Names under which training scripts keep the weights among other things.
_USUAL_KEYS: Final = ("state_dict", "model_state_dict", "model")


def read_pickled(stream: BinaryIO, size: int) -> dict[str, torch.Tensor]:
    """Return the tensors of a saved `state_dict` from a file of `size` bytes.

    Raises:
        CheckpointError: the file is damaged, or holds objects other than weights.
    """
    try:
        _require_size(stream, size)
        loaded = torch.load(stream, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            "the file holds Python objects besides weights, and loading those could run code; "
            "save model.state_dict() instead"
        ) from error
    except _DAMAGE as error:
        raise CheckpointError(f"not readable as torch.save of weights: {error}") from error
    return _weights(loaded)


def _require_size(stream: BinaryIO, size: int) -> None:
    """Refuse an archive whose records unpack to far more than it holds; torch.save compresses none."""
    if not zipfile.is_zipfile(stream):
        stream.seek(0)
        return
    with zipfile.ZipFile(stream) as archive:
        unpacked = sum(each.file_size for each in archive.infolist())
    if unpacked > most_unpacked(size):
        raise too_large(unpacked, size, None)
    stream.seek(0)


def _weights(loaded: Any) -> dict[str, torch.Tensor]:
    table: Mapping[Any, Any] = loaded if isinstance(loaded, dict) else {}
    for key in _USUAL_KEYS:
        if isinstance(table.get(key), dict):
            table = table[key]
            break
    found = {str(name): each for name, each in table.items() if isinstance(each, torch.Tensor)}
    if not found:
        raise CheckpointError(f"the file holds a {type(loaded).__name__} without tensors by name")
    return found
