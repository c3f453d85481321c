"""CIFAR-10 from its pickled batches, read without running what a pickle names."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor

from flodl.data.known.array_pickle import read_pickled_table
from flodl.data.known.folders import find_files, read_bytes
from flodl.errors import DataError

_FOLDER: Final = "cifar-10-batches-py"
_ARCHIVE: Final = "cifar-10-python.tar.gz"
_SHAPE: Final = (3, 32, 32)
_CLASSES: Final = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@final
class Cifar10:
    """Pictures and labels of CIFAR-10; a data set for `DataLoader` with parts `image` and `label`.

    The folder, or `cifar-10-batches-py` below it, holds `data_batch_1` to `data_batch_5`, and `test_batch`
    for `train=False`. Nothing is downloaded. The files are pickles; a file that names anything but an
    array is refused, so that reading one cannot run a program.

    Attributes:
        images: all pictures as bytes, `uint8 [N, 3, 32, 32]`.
        labels: all labels, `int64 [N]`.
        classes: the names of the ten labels.

    Example:
        >>> import pickle, tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from flodl import Cifar10, DataLoader
        >>> folder = Path(tempfile.mkdtemp())
        >>> batch = {b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [3, 9]}
        >>> _ = (folder / "test_batch").write_bytes(pickle.dumps(batch))
        >>> data = Cifar10(folder, train=False)
        >>> next(DataLoader(data, 2, shuffle=False).epoch(0))
        Batch(image: float32[2, 3, 32, 32], label: int64[2])
        >>> [data.classes[each] for each in data.labels]
        ['cat', 'truck']
    """

    classes: Final = _CLASSES

    def __init__(self, folder: str | Path, *, train: bool = True) -> None:
        """Read the files.

        Args:
            folder: where the files are.
            train: read the five training batches; false reads the test batch.

        Raises:
            DataError: files are missing, or do not hold what batches of CIFAR-10 hold.
        """
        names = [f"data_batch_{n}" for n in range(1, 6)] if train else ["test_batch"]
        wanted = {name: (name,) for name in names}
        files = find_files("Cifar10", folder, wanted, inside=(_FOLDER,), hint=_hint(folder))
        batches = [_read_batch(files[name]) for name in names]
        self.images = torch.cat([images for images, _ in batches])
        self.labels = torch.cat([labels for _, labels in batches])

    def __len__(self) -> int:
        return len(self.labels)

    def get_batch(self, indices: list[int]) -> dict[str, Tensor]:
        """Return pictures `float32 [B, 3, 32, 32]` from 0 to 1, and their labels `int64 [B]`."""
        rows = torch.as_tensor(indices)
        return {"image": self.images[rows].float() / 255, "label": self.labels[rows]}


def _read_batch(path: Path) -> tuple[Tensor, Tensor]:
    table = read_pickled_table(read_bytes(path), path)
    images, labels = table.get("data"), table.get("labels")
    if not isinstance(images, Tensor) or images.shape[1:] != (3 * 32 * 32,):
        raise DataError(f"{path} is no batch of CIFAR-10: `data` should be bytes [N, 3072]")
    if not _are_labels(labels, len(images)):
        raise DataError(
            f"{path} is no batch of CIFAR-10: `labels` should be {len(images)} numbers from 0 to 9"
        )
    return images.reshape(-1, *_SHAPE), torch.tensor(labels, dtype=torch.int64)


def _are_labels(labels: object, count: int) -> bool:
    """Return True if these are so many numbers of classes."""
    return (
        isinstance(labels, list)
        and len(labels) == count
        and all(isinstance(each, int) and 0 <= each < len(_CLASSES) for each in labels)
    )


def _hint(folder: str | Path) -> str:
    if (Path(folder).expanduser() / _ARCHIVE).is_file():
        return f"unpack the archive: `tar -xzf {_ARCHIVE}` in that folder"
    return "put the files there, or let `torchvision.datasets.CIFAR10(FOLDER, download=True)` fetch them"
