"""Files of a known data set in a folder: found under any of their names, or all missing ones named."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from flodl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_files(
    label: str,
    folder: str | Path,
    wanted: Mapping[str, Sequence[str]],
    *,
    inside: Sequence[str],
    hint: str,
) -> dict[str, Path]:
    """Return the path of each file that a data set needs.

    Args:
        label: the name of the data set, for messages.
        folder: where the user keeps the files.
        wanted: for each key the names that its file may have, the usual one first.
        inside: folders below `folder` in which other programs keep these files.
        hint: how to get the files.

    Raises:
        DataError: the folder does not exist, or lacks files; all of them are named.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise DataError(f"{label}: there is no folder {root}; {hint}")
    places = (root, *(root / each for each in inside))
    found = {
        key: path
        for key, names in wanted.items()
        if (path := _first_file(places, names)) is not None
    }
    missing = [names[0] for key, names in wanted.items() if key not in found]
    if missing:
        raise DataError(f"{label}: {root} lacks {', '.join(missing)}; {hint}")
    return found


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in `.gz`.

    Raises:
        DataError: the file cannot be read, or is no complete gzip file.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(f"{path} cannot be read: {problem}; fetch the file again") from problem


def _first_file(places: Sequence[Path], names: Sequence[str]) -> Path | None:
    for place in places:
        for name in names:
            if (place / name).is_file():
                return place / name
    return None
