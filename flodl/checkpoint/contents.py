"""Contents of a checkpoint file of any kind, read without trusting any size or name in it."""

from __future__ import annotations

import gzip
import io
import json
import mmap
import os
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, final

import torch

from flodl.checkpoint import sound
from flodl.checkpoint.direct import DirectReader, Piece, takes_bytes
from flodl.checkpoint.format import (
    MAX_HEADER,
    VERSION,
    Entry,
    Header,
    checksums,
    decode_header,
    header_length,
)
from flodl.checkpoint.legacy import MAGIC, decode_legacy
from flodl.checkpoint.pickled import ZIP_MAGIC, read_pickled
from flodl.checkpoint.sizes import most_unpacked, too_large
from flodl.checkpoint.tensors import CODES, DTYPES, from_bytes
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

Source: TypeAlias = "str | Path | BinaryIO"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PICKLE_MAGIC: Final = b"\x80"
# The second half of the length of a safetensors header, and the first byte of the header.
_HEADER_FOLLOWS: Final = b"\0\0\0\0{"
# As fast as 1 MiB, of which gzip of Python 3.13 holds two at a time.
_CHUNK: Final = 1 << 17


class AbstractContents(ABC):
    """Tensors by name, whatever the format of the file.

    Attributes:
        path: the file, or nothing for a stream.
        version: the version of the format; 0 for files that other programs wrote.
        metadata: texts by key; `fdl.` ones are ours.
        sealed: whether every byte is covered by a checksum.
    """

    path: str | None
    version: int
    metadata: Mapping[str, str]
    sealed: bool

    @abstractmethod
    def entries(self) -> tuple[Entry, ...]:
        """Return all tensors in the order of the file."""

    @abstractmethod
    def tensor(self, name: str) -> Tensor:
        """Return a tensor, which may share memory with the file: copy it before you change it."""

    def copy_to(self, targets: Sequence[tuple[str, Tensor]]) -> None:
        """Copy tensors, by their names in the file, into tensors of the same shape.

        Raises:
            CheckpointError: the file cannot be read any more.
        """
        with torch.no_grad():
            for name, target in targets:
                target.copy_(self.tensor(name))

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """Check every byte and return the damaged parts; none for a sound file."""

    def require_sound(self) -> None:
        """Check every byte.

        Raises:
            CheckpointError: something is damaged.
        """
        self._refuse(self.problems())

    def prepare_copy(self) -> None:
        """Make sure that every byte was checked, or that `copy_to` checks what it copies.

        Raises:
            CheckpointError: something is damaged.
        """
        self.require_sound()

    def _refuse(self, damage: tuple[str, ...]) -> None:
        if damage:
            raise CheckpointError(
                "the file is damaged; use another copy", path=self.path, differences=damage
            )


@final
class SafetensorsContents(AbstractContents):
    """A file of our format, or of safetensors in general."""

    def __init__(
        self,
        data: bytearray | mmap.mmap,
        header: Header,
        path: str | None,
        reader: DirectReader | None = None,
    ) -> None:
        self.path = path
        self._reader = reader
        self.metadata = header.metadata
        self.sealed = header.sealed
        self.version = _version(header.metadata, path)
        self._header = header
        self._view = memoryview(data)
        self._by_name = {each.name: each for each in header.entries}
        self._pending: Mapping[str, str] = {}  # checksums to compare while copying

    def entries(self) -> tuple[Entry, ...]:
        """Return all tensors in the order of the file."""
        return self._header.entries

    def _bytes(self, entry: Entry) -> memoryview:
        start = self._header.data_start
        return self._view[start + entry.start : start + entry.end]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor that shares the memory of the file."""
        entry = self._by_name[name]
        return from_bytes(self._bytes(entry), entry.dtype, entry.shape)

    def require_sound(self) -> None:
        """Check every byte, and remember it of the file.

        Raises:
            CheckpointError: something is damaged.
        """
        before = None if self._reader is None else self._reader.stamp()
        super().require_sound()
        if self.sealed and self._reader is not None and self._reader.stamp() == before:
            sound.remember(before)

    def prepare_copy(self) -> None:
        """Check every byte, unless this process did before and the file is as it was.

        Checking first keeps a model whole, at the price of reading a file twice.  One that is known to be
        sound needs no more than a guard against what the times of a file do not show: `copy_to` checks what
        it copies.

        Raises:
            CheckpointError: something is damaged.
        """
        if self.sealed and self._reader is not None and sound.is_known(self._reader.stamp()):
            self._pending = stored_table(self.metadata, "fdl.checksums", self.path)
        else:
            self.require_sound()

    def copy_to(self, targets: Sequence[tuple[str, Tensor]]) -> None:
        """Read bytes straight into the memory of the tensors where that is the same as copying."""
        if self._reader is None:
            super().copy_to(targets)
            return
        direct = []
        others = []
        for name, target in targets:
            entry = self._by_name[name]
            if takes_bytes(target, DTYPES[entry.dtype]):
                place = self._header.data_start + entry.start
                direct.append(Piece(name, place, target, self._pending.get(name, "")))
            else:
                others.append((name, target))
        if self._pending:
            self._refuse(self._damaged([self._by_name[name] for name, _ in others]))
        self._reader.fill(direct)
        super().copy_to(others)

    def problems(self) -> tuple[str, ...]:
        """Compare every tensor with its checksum."""
        if not self.sealed:
            return ()
        return self._damaged(self._header.entries)

    def _damaged(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        stored = stored_table(self.metadata, "fdl.checksums", self.path)
        found = checksums([self._bytes(each) for each in entries])
        return tuple(
            f"tensor {each.name!r} is damaged: its checksum does not match"
            for each, actual in zip(entries, found, strict=True)
            if stored.get(each.name) != actual
        )


@final
class LoadedContents(AbstractContents):
    """Tensors that had to be decoded as a whole: files of the Rust framework and of `torch.save`."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        metadata: Mapping[str, str],
        version: int,
        path: str | None,
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.sealed = False
        self.version = version
        self._tensors = tensors

    def entries(self) -> tuple[Entry, ...]:
        """Return all tensors in the order of the file."""
        found = []
        place = 0
        for name, each in self._tensors.items():
            size = each.numel() * each.element_size()
            found.append(
                Entry(
                    name=name,
                    dtype=CODES.get(each.dtype, str(each.dtype)),
                    shape=tuple(each.shape),
                    start=place,
                    end=place + size,
                )
            )
            place += size
        return tuple(found)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor."""
        return self._tensors[name]

    def problems(self) -> tuple[str, ...]:
        """Return nothing: these formats carry no checksums, and their structure was checked on opening."""
        return ()


def _version(metadata: Mapping[str, str], path: str | None) -> int:
    text = metadata.get("fdl.version", "0")
    if not text.isdecimal() or len(text) > 9:
        raise CheckpointError(f"the format version {text!r} is not a number", path=path)
    if int(text) > VERSION:
        raise CheckpointError(
            f"the file has format version {text}, this flodl reads up to {VERSION}; upgrade flodl",
            path=path,
        )
    return int(text)


def stored_table(metadata: Mapping[str, str], key: str, path: str | None) -> dict[str, str]:
    """Return a table of texts that is stored as JSON in the metadata.

    Raises:
        CheckpointError: the text is not such a table.
    """
    try:
        table = json.loads(metadata.get(key, "{}"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{key} is not readable: {error}", path=path) from error
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise CheckpointError(f"{key} is not a table of texts", path=path)
    return table


def open_contents(source: Source) -> AbstractContents:
    """Open a checkpoint: `.fdl` of any version, safetensors, or `torch.save` of weights; any of them gzipped.

    The kind is told by the first bytes, not by the name.

    Raises:
        CheckpointError: there is no such file, or it is damaged in a way that its header shows.
    """
    if not isinstance(source, str | Path):
        return _open_bytes(_stream_bytes(source), None, must_be_sealed=False)
    path = Path(source)
    ours = path.name.endswith((".fdl", ".fdl.gz"))
    try:
        with path.open("rb") as file:
            first = file.read(4)
            if first[:2] == _GZIP_MAGIC:
                file.seek(0)
                return _open_bytes(_decompressed(file, str(path)), str(path), must_be_sealed=ours)
            if len(first) < 4:
                raise CheckpointError(f"the file has only {len(first)} bytes", path=str(path))
            # A private map: it cannot change the file, and untouched pages cost nothing.
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            reader = DirectReader(file, str(path))
    except FileNotFoundError as error:
        raise CheckpointError("there is no such file", path=str(path)) from error
    except OSError as error:
        raise CheckpointError(
            f"cannot be read ({error.strerror or error})", path=str(path)
        ) from error
    return _open_bytes(data, str(path), must_be_sealed=ours, reader=reader)


def _open_bytes(
    data: bytearray | mmap.mmap,
    path: str | None,
    *,
    must_be_sealed: bool,
    reader: DirectReader | None = None,
) -> AbstractContents:
    first = bytes(data[:4])
    try:
        if first == MAGIC:
            version, tensors, metadata = decode_legacy(memoryview(data))
            return LoadedContents(tensors, metadata, version, path)
        if first == ZIP_MAGIC or _is_pickle(data):
            return LoadedContents(read_pickled(io.BytesIO(data), len(data)), {}, 0, path)
        length = header_length(data[:8], len(data))
        raw = bytes(data[: 8 + length])
        header = decode_header(raw, len(data), must_be_sealed=must_be_sealed)
        return SafetensorsContents(data, header, path, reader)
    except CheckpointError as error:
        if error.path is None and path:
            raise CheckpointError(str(error), path=path) from error
        raise


def _is_pickle(data: bytearray | mmap.mmap) -> bool:
    """Return True for a pickle: a header of 128, 384, ... bytes begins with the same byte."""
    return data[:1] == _PICKLE_MAGIC and data[4:9] != _HEADER_FOLLOWS


def _stream_bytes(source: BinaryIO) -> bytearray:
    """Read a stream to its end and unpack it; what was read is given up before anything is decoded."""
    data = source.read()
    if data[:2] == _GZIP_MAGIC:
        return _decompressed(io.BytesIO(data), None)  # shares the bytes
    return bytearray(data)


def _decompressed(file: BinaryIO, path: str | None) -> bytearray:
    """Decompress a file, but no more than its header announces and its size on the disk explains."""
    packed_size = file.seek(0, os.SEEK_END)
    file.seek(0)
    most = most_unpacked(packed_size)
    data = bytearray()
    announced: int | None = None
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as packed:
            while chunk := packed.read(_CHUNK):
                data += chunk
                announced = announced or _expected_size(data)
                if max(len(data), announced or 0) > most:
                    raise too_large(announced, packed_size, path)
                if announced is not None and len(data) > announced:
                    raise CheckpointError(
                        f"holds more than the {announced} bytes it announces", path=path
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise CheckpointError(f"the compressed data is damaged: {error}", path=path) from error
    return data


def _expected_size(data: bytearray) -> int | None:
    """Return how long a safetensors file will be, as soon as its header is here; None for other formats."""
    if data.startswith((MAGIC, ZIP_MAGIC)) or _is_pickle(data):
        return None
    length = header_length(data, MAX_HEADER + 8)
    if len(data) < 8 + length:
        return None
    try:
        document = json.loads(bytes(data[8 : 8 + length]))
        ends = [each["data_offsets"][1] for key, each in document.items() if key != "__metadata__"]
        return 8 + length + max(ends, default=0)
    except (ValueError, RecursionError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise CheckpointError(f"the header is not readable: {error}") from error
