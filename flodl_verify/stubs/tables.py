"""Tables and texts of noise in the place of files that are not there."""

from __future__ import annotations

import builtins
import io
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final, final

import torch

from flodl_verify.stubs.hints import Hints

NUM_ROWS = 200
_TABLES: Final = frozenset({".csv", ".tsv", ".data", ".dat"})
_PYTHON: Final = frozenset({sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()})
_PACKED: Final = frozenset({".gz", ".bz2", ".xz"})
_WORDS: Final = (
    "the", "a", "river", "small", "runs", "light", "over", "and", "stone", "under", "green", "it",
    "sings", "old", "of", "house", "falls", "quiet", "with", "rain",
)  # fmt: skip


def rows_of(columns: int, count: int = NUM_ROWS) -> list[list[float]]:
    """Return rows of numbers between 0 and 1; the last column is a label, 0 or 1."""
    noise = torch.rand(count, columns, generator=torch.Generator().manual_seed(0)).tolist()
    return [[*(round(x, 4) for x in row[:-1]), float(row[-1] > 0.5)] for row in noise]


def column_names(hints: Hints) -> list[str]:
    """Return as many names as there are columns, those that a script uses first."""
    return [*hints.names, *(f"column{n}" for n in range(len(hints.names), hints.columns))]


def table_text(hints: Hints, delimiter: str, *, names: bool, heading: int = 0) -> str:
    """Return a table as text; `heading` is the number of lines before it."""
    lines = [delimiter.join(column_names(hints))] * (1 if names else heading)
    for row in rows_of(hints.columns):
        cells = [*(f"{x:g}" for x in row[:-1]), str(int(row[-1]))]
        lines.append(delimiter.join(cells))
    return "\n".join(lines) + "\n"


def plain_text(lines: int = 400) -> str:
    """Return lines of words."""
    draws = torch.randint(
        len(_WORDS), (lines, 9), generator=torch.Generator().manual_seed(0)
    ).tolist()
    return "".join(" ".join(_WORDS[n] for n in line).capitalize() + ".\n" for line in draws)


@final
class MissingFiles:
    """Answers for tables and texts that a script reads and that are not there."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._hints = Hints()

    def install(self, hints: Hints) -> None:
        """Stand behind `open` and the readers of numpy, for the script with these hints."""
        self._hints = hints
        real = builtins.open

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            try:
                return real(file, mode, *args, **kwargs)
            except FileNotFoundError:
                found = self._content(file) if "r" in mode and "+" not in mode else None
                if found is None:
                    raise
            return io.BytesIO(found.encode()) if "b" in mode else io.StringIO(found)

        builtins.open = opened
        io.open = opened
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            for name in ("loadtxt", "genfromtxt"):
                vars(numpy)[name] = self._reader(vars(numpy)[name])

    def _content(self, file: Any) -> str | None:
        """Return the stand-in for a missing file; nothing if it is no data."""
        if not isinstance(file, str | os.PathLike):
            return None
        path = PurePath(os.fspath(file))
        if _is_pythons(path):
            return None  # a library that checks for an optional file
        if _ending(path) in _TABLES and path.suffix not in _PACKED:
            self._note(path.name)
            delimiter = "\t" if _ending(path) == ".tsv" else ","
            return table_text(self._hints, delimiter, names=self._hints.reads_names)
        if path.suffix == ".txt":
            self._note(path.name)
            return plain_text()
        return None

    def _reader(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a reader of numbers that reads noise where there is no file."""

        def read(file: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return real(file, *args, **kwargs)
            except FileNotFoundError:
                path = PurePath(os.fspath(file))
                if _ending(path) not in {*_TABLES, ".txt"}:
                    raise
            self._note(path.name)
            heading = kwargs.get("skiprows", kwargs.get("skip_header", 0))
            text = table_text(
                self._hints,
                kwargs.get("delimiter") or " ",
                names=bool(kwargs.get("names")),
                heading=heading,
            )
            return real(io.StringIO(text), *args, **kwargs)

        return read


def _is_pythons(path: PurePath) -> bool:
    """Return True if a path is below this Python or its packages, where no script keeps its data."""
    return any(path.is_relative_to(place) for place in _PYTHON)


def _ending(path: PurePath) -> str:
    """Return the ending of a file, without that of its packing."""
    packed = path.suffix in _PACKED
    return PurePath(path.stem).suffix if packed else path.suffix
