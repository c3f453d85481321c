"""As much of pandas as a script needs to read numbers from a table, where pandas is not installed."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, final

from flodl_verify.stubs.anything import make_module

Rows = list[list[float]]


@final
class Frame:
    """A table of numbers with named columns; a single column gives flat values."""

    def __init__(self, rows: Rows, columns: Sequence[str], *, flat: bool = False) -> None:
        self._rows = rows
        self.columns = list(columns)
        self._flat = flat

    @property
    def values(self) -> Any:
        """The numbers as an array."""
        import numpy as np

        found = np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(self.columns))
        return found[:, 0] if self._flat else found

    def to_numpy(self, dtype: Any = None) -> Any:
        """The numbers as an array."""
        return self.values if dtype is None else self.values.astype(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        del copy
        return self.to_numpy(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return (len(self._rows),) if self._flat else (len(self._rows), len(self.columns))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(row[0] for row in self._rows) if self._flat else iter(self.columns)

    def __getitem__(self, key: Any) -> Frame:
        names = [key] if isinstance(key, str) else list(key)
        return self._pick([self.columns.index(name) for name in names], flat=isinstance(key, str))

    @property
    def iloc(self) -> _Places:
        """Rows and columns by their places."""
        return _Places(self)

    def drop(self, labels: Any = (), axis: int = 1, columns: Any = (), **_: Any) -> Frame:
        """Return the table without some columns."""
        del axis
        gone = [*_listed(labels), *_listed(columns)]
        return self._pick([n for n, name in enumerate(self.columns) if name not in gone])

    def pop(self, name: str) -> Frame:
        """Take a column out."""
        found, rest = self[name], self.drop(name)
        self._rows, self.columns = rest._rows, rest.columns
        return found

    def astype(self, dtype: Any) -> Any:
        """The numbers as an array of another type."""
        return self.values.astype(dtype)

    def head(self, count: int = 5) -> Frame:
        """The first rows."""
        return Frame(self._rows[:count], self.columns, flat=self._flat)

    def same(self, *_: Any, **__: Any) -> Frame:
        """Return the table: there is nothing to fill, drop or copy in it."""
        return self

    dropna = fillna = copy = reset_index = same

    def _pick(self, places: list[int], *, flat: bool = False) -> Frame:
        rows = [[row[n] for n in places] for row in self._rows]
        return Frame(rows, [self.columns[n] for n in places], flat=flat)

    def at(self, rows: Any, columns: Any) -> Any:
        """Return a part of the table by places."""
        chosen = self._rows[rows] if isinstance(rows, slice) else [self._rows[rows]]
        everything: list[int] = list(range(len(self.columns)))
        single = isinstance(columns, int)
        if single:
            places = [everything[columns]]
        elif isinstance(columns, slice):
            places = everything[columns]
        else:
            places = everything if columns is None else [everything[n] for n in columns]
        part = Frame(chosen, self.columns)._pick(places, flat=single)
        if isinstance(rows, slice):
            return part
        return part.values[0]


@final
class _Places:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, None)
        return self._frame.at(rows, columns)


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def read_csv(
    file: Any, sep: str = ",", delimiter: str | None = None, header: Any = 0, **_: Any
) -> Frame:
    """Read a table; cells that are no numbers become 0."""
    with Path(file).open(encoding="utf-8") as stream:
        rows = [row for row in csv.reader(stream, delimiter=delimiter or sep) if row]
    names = rows[0] if header is not None else [str(n) for n in range(len(rows[0]))]
    return Frame([[_number(x) for x in row] for row in rows[header is not None :]], names)


def make_frames_module(name: str) -> ModuleType:
    """Return the stand-in for pandas."""
    module = make_module(name)
    vars(module).update(read_csv=read_csv, DataFrame=Frame)
    return module


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
