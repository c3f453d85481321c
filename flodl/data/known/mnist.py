"""MNIST, and every data set in the same IDX files: Fashion-MNIST, KMNIST, EMNIST."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor

from flodl.data.known.folders import find_files, read_bytes
from flodl.errors import DataError

_HINT: Final = (
    "put the files there, or let `torchvision.datasets.MNIST(FOLDER, download=True)` fetch them"
)
_UNSIGNED_BYTE: Final = 8


@final
class Mnist:
    """Pictures and labels of IDX files; a data set for `DataLoader` with parts `image` and `label`.

    The folder holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or `t10k-...` for
    `train=False`, with or without `.gz`; `MNIST/raw` below it, where torchvision keeps them, will do.
    Nothing is downloaded.

    Attributes:
        images: all pictures as bytes, `uint8 [N, 1, H, W]`.
        labels: all labels, `int64 [N]`.

    Example:
        >>> import struct, tempfile
        >>> from pathlib import Path
        >>> from flodl import DataLoader, Mnist
        >>> folder = Path(tempfile.mkdtemp())
        >>> idx = lambda *shape: struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
        >>> _ = (folder / "train-images-idx3-ubyte").write_bytes(idx(2, 28, 28) + bytes([255] * 1568))
        >>> _ = (folder / "train-labels-idx1-ubyte").write_bytes(idx(2) + bytes([7, 3]))
        >>> next(DataLoader(Mnist(folder), 2, shuffle=False).epoch(0))
        Batch(image: float32[2, 1, 28, 28], label: int64[2])
    """

    def __init__(self, folder: str | Path, *, train: bool = True) -> None:
        """Read the files.

        Args:
            folder: where the files are.
            train: read the training files; false reads the test files.

        Raises:
            DataError: files are missing, or do not hold what IDX files of pictures hold.
        """
        part = "train" if train else "t10k"
        wanted = {
            kind: _names(f"{part}-{kind}", f"idx{dimensions}-ubyte")
            for kind, dimensions in (("images", 3), ("labels", 1))
        }
        inside = ("raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw")
        files = find_files("Mnist", folder, wanted, inside=inside, hint=_HINT)
        self.images = read_idx(files["images"], 3).unsqueeze(1)
        self.labels = read_idx(files["labels"], 1).to(torch.int64)
        if len(self.images) != len(self.labels):
            raise DataError(
                f"{files['images']} holds {len(self.images)} pictures and {files['labels']} "
                f"{len(self.labels)} labels; they do not belong together"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def get_batch(self, indices: list[int]) -> dict[str, Tensor]:
        """Return pictures `float32 [B, 1, H, W]` from 0 to 1, and their labels `int64 [B]`."""
        rows = torch.as_tensor(indices)
        return {"image": self.images[rows].float() / 255, "label": self.labels[rows]}


def read_idx(path: Path, dimensions: int) -> Tensor:
    """Return the bytes of an IDX file as a tensor `uint8` of the shape that its head states.

    Args:
        path: the file, compressed if it ends in `.gz`.
        dimensions: how many dimensions it must have.

    Raises:
        DataError: the file is none, has another type or number of dimensions, or another length.
    """
    data = read_bytes(path)
    # Two zeros, the type, the number of dimensions; then each size as 4 bytes, the highest first.
    expected = bytes((0, 0, _UNSIGNED_BYTE, dimensions))
    start = 4 + 4 * dimensions
    if data[:4] != expected or len(data) < start:
        raise DataError(
            f"{path} is no IDX file of bytes with {dimensions} dimension(s): it begins with "
            f"{data[:4].hex(' ') or 'nothing'}, not with {expected.hex(' ')}"
        )
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, start, 4)]
    if len(data) - start != math.prod(shape):
        raise DataError(
            f"{path} should hold {math.prod(shape)} bytes for {shape} and holds {len(data) - start}; "
            "fetch the file again"
        )
    if not math.prod(shape):
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=start).reshape(shape)


def _names(stem: str, ending: str) -> tuple[str, ...]:
    usual = (f"{stem}-{ending}", f"{stem}.{ending}")
    return (*usual, *(f"{name}.gz" for name in usual))
