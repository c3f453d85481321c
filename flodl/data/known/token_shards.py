"""Windows over files of tokens that are larger than the memory.

    shards = TokenShards("tokens", length=1024)       # tokens/part_000.bin, part_001.bin, ...
    DataLoader(shards, 32, seed=7).epoch(0)           # windows in an order of (seed, epoch, position)
    shards.stream(32, seed=7, position=40_000)        # the same order without an end, from batch 40,000

A window lies in one shard: window `i` is found by the number of windows of the shards before, and begins
at a multiple of `stride`. The files are mapped, so a batch reads only its own pages. The order is computed
(`flodl.data.order`), so any position is found without those before it. A run resumes from the number of
batches that it has used; no other state is saved.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, final

import torch
from torch import Tensor

from flodl.data.arguments import require_at_least
from flodl.data.known.windows import windows_in, windows_of
from flodl.data.order import mix, permuted
from flodl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TokenType = Literal["uint16", "uint32"]
_BYTES: Final[dict[TokenType, int]] = {"uint16": 2, "uint32": 4}
# Files of llm.c begin with 256 numbers: a magic number, a version, the number of tokens.
_HEAD_BYTES: Final = 1024
_HEADS: Final[dict[tuple[int, int], TokenType]] = {
    (20240520, 1): "uint16",
    (20240801, 7): "uint32",
}


@final
class TokenShards:
    """Files of tokens as a data set of windows, with parts `input` and `target`, both `int64 [length]`.

    A file is a row of little-endian `uint16` or `uint32`, as `numpy.ndarray.tofile` writes it, or a file of
    llm.c, whose head is skipped. The target of a token is the next one. The tokens at the end of a shard
    that fill no window are left out.

    Attributes:
        files: the shards, in order.
        length: tokens of a window.

    Example:
        >>> import array, tempfile
        >>> from pathlib import Path
        >>> from flodl import TokenShards
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.bin").write_bytes(array.array("H", range(9)).tobytes())
        >>> _ = (folder / "b.bin").write_bytes(array.array("H", range(50, 55)).tobytes())
        >>> shards = TokenShards(folder, length=4)
        >>> len(shards)
        3
        >>> shards.get_batch([0, 2])["input"].tolist()
        [[0, 1, 2, 3], [50, 51, 52, 53]]
        >>> batches = shards.stream(2, seed=7)
        >>> _, second, third = next(batches), next(batches), next(batches)
        >>> torch.equal(next(shards.stream(2, seed=7, position=2))["input"], third["input"])
        True
    """

    def __init__(
        self,
        places: str | Path | Sequence[str | Path],
        *,
        length: int,
        stride: int | None = None,
        dtype: TokenType = "uint16",
    ) -> None:
        """Find the shards and count their windows; tokens are read when they are used.

        Args:
            places: a folder, whose files `*.bin` are the shards in the order of their numbers; a file; or
                several files, in the order that counts.
            length: tokens of a window.
            stride: tokens from the beginning of a window to that of the next; `length` if not given.
            dtype: the type of the tokens, `uint16` or `uint32`; the head of a file of llm.c decides it.

        Raises:
            DataError: files are missing, damaged or too short for a window.
        """
        require_at_least(1, "length", length)
        if dtype not in _BYTES:
            raise DataError(f"dtype is {dtype!r}; tokens are {' or '.join(map(repr, _BYTES))}")
        self.length = length
        self._stride = length if stride is None else stride
        require_at_least(1, "stride", self._stride)
        self.files = _shard_files(places)
        self._shards = tuple(_shard_of(path, dtype) for path in self.files)
        counts = [windows_in(each.tokens, length, self._stride) for each in self._shards]
        # The first window of each shard, and the number of all.
        self._first = torch.tensor([0, *accumulate(counts)])
        if not len(self):
            raise DataError(
                f"no shard of {self.files[0].parent} has {length + 1} tokens, which a window with its "
                "target needs; give a smaller `length`"
            )

    def __len__(self) -> int:
        return int(self._first[-1])

    def get_batch(self, indices: list[int]) -> dict[str, Tensor]:
        """Return windows and the same windows one token later, both `int64 [B, length]`.

        Raises:
            IndexError: there is no window of such a number.
        """
        rows = torch.as_tensor(indices, dtype=torch.int64)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"there are {len(self)} windows; the indices are {indices}")
        # Among shards without a window, `right` finds the last one that begins here: the one that has it.
        owners = torch.searchsorted(self._first, rows, right=True) - 1
        starts = (rows - self._first[owners]) * self._stride
        found = torch.empty(len(rows), self.length + 1, dtype=torch.int64)
        for at, (owner, start) in enumerate(zip(owners.tolist(), starts.tolist(), strict=True)):
            found[at] = self._shards[owner].read(start, self.length + 1)
        zeros = torch.arange(len(rows)) * (self.length + 1)
        return windows_of(found.reshape(-1), zeros, self.length)

    def order(self, start: int, stop: int, *, seed: int = 42) -> Tensor:
        """Return the windows at positions `start` to `stop - 1` of an order without an end.

        Each pass over all windows has an order of (seed, number of the pass), the same as the epochs of a
        `DataLoader` with that seed.

        Args:
            start: the first position, from 0.
            stop: the position after the last.
            seed: names the order.
        """
        require_at_least(0, "start", start)
        pieces, total = [], len(self)
        while start < stop:
            epoch, position = divmod(start, total)
            end = min(total, position + stop - start)
            pieces.append(permuted(total, mix(seed, epoch), position, end))
            start += end - position
        return torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64)

    def stream(
        self, batch_size: int, *, seed: int = 42, position: int = 0
    ) -> Iterator[dict[str, Tensor]]:
        """Yield batches without an end; batch `position` depends on (seed, position) and nothing else.

        Args:
            batch_size: windows of a batch.
            seed: names the order.
            position: the batch to begin with: how many batches a resumed run has used.

        Raises:
            DataError: a number is too small.
        """
        require_at_least(1, "batch_size", batch_size)
        require_at_least(0, "position", position)
        return self._batches(batch_size, seed, position)

    def _batches(self, size: int, seed: int, position: int) -> Iterator[dict[str, Tensor]]:
        while True:
            windows = self.order(position * size, (position + 1) * size, seed=seed)
            yield self.get_batch(windows.tolist())
            position += 1


@final
@dataclass(slots=True)
class _Shard:
    """One file; it is mapped at the first read, and again in each process that a copy reaches."""

    path: Path
    dtype: TokenType
    start: int
    tokens: int
    pages: mmap.mmap | None = None

    def read(self, start: int, count: int) -> Tensor:
        """Return tokens `start` to `start + count - 1` as `int64`."""
        if self.pages is None:
            # Read only: a private copy of a file larger than the memory would be refused.
            with self.path.open("rb") as file:
                self.pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = _BYTES[self.dtype]
        first = self.start + start * size
        piece = bytearray(self.pages[first : first + count * size])
        # torch does little with unsigned numbers: read them signed, and take the sign off.
        signed = torch.int16 if size == 2 else torch.int32
        return torch.frombuffer(piece, dtype=signed).to(torch.int64) & ((1 << 8 * size) - 1)

    def __getstate__(self) -> Any:
        return (self.path, self.dtype, self.start, self.tokens)

    def __setstate__(self, state: Any) -> None:
        self.path, self.dtype, self.start, self.tokens = state
        self.pages = None


def _shard_files(places: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the files of a folder in the order of their numbers, or those that were named."""
    if isinstance(places, str | Path):
        one = Path(places).expanduser()
        if not one.is_dir():
            return _present((one,))
        found = sorted(one.glob("*.bin"), key=lambda path: _natural(path.name))
        if not found:
            raise DataError(f"TokenShards: {one} has no files `*.bin`; name the files themselves")
        return tuple(found)
    files = tuple(Path(each).expanduser() for each in places)
    if not files:
        raise DataError("TokenShards: no files; name a folder or at least one file")
    return _present(files)


def _present(files: tuple[Path, ...]) -> tuple[Path, ...]:
    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        raise DataError(f"TokenShards: there is no file {', '.join(missing)}")
    return files


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts `part_2` before `part_10`."""
    parts = re.split(r"(\d+)", name)
    return [(int(each), "") if each.isdigit() else (-1, each) for each in parts]


def _shard_of(path: Path, dtype: TokenType) -> _Shard:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
    magic, version, tokens = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 8))
    named = _HEADS.get((magic, version))
    if named is not None:
        if size != _HEAD_BYTES + tokens * _BYTES[named]:
            raise DataError(
                f"{path} should hold {tokens} tokens of {named} after its head and has {size} bytes; "
                "fetch or write the file again"
            )
        return _Shard(path, named, _HEAD_BYTES, tokens)
    if size % _BYTES[dtype]:
        raise DataError(
            f"{path} has {size} bytes, which is no whole number of {dtype}; give `dtype=`, or write the "
            "file again"
        )
    return _Shard(path, dtype, 0, size // _BYTES[dtype])
