"""The hot path: values of a step are put aside in a microsecond, and looked at by another thread."""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, TypeAlias, cast, final

import torch
from torch import Tensor

from flodl.monitor.store.frames import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

Value: TypeAlias = "Tensor | float"
Row: TypeAlias = "tuple[float, float, dict[str, Value]]"


@final
class Recorder:
    """Puts values aside and returns them in the order in which they came.

    A number on the CPU is read at once.  A tensor on another device is kept there until the values
    are taken, so that recording never waits for a device; it must not be overwritten in place.
    """

    def __init__(self) -> None:
        self.rows: deque[Row] = deque()
        self._fetching = False
        self._last_taken = 0
        self._last_step: float | None = None

    def checked(self, values: dict[str, Value]) -> dict[str, Value]:
        """Replace what is no plain number by one, or by a tensor on its device.

        Raises:
            ValueError: a value is not one number.
        """
        for name, value in values.items():
            if type(value) is not float:
                kept = values[name] = _kept(name, value)
                self._fetching |= isinstance(kept, Tensor)
        return values

    @property
    def last_step(self) -> float | None:
        """The step that was recorded last."""
        return self.rows[-1][0] if self.rows else self._last_step

    @property
    def busy(self) -> bool:
        """Whether there was so much to take that taking it more often would cost something."""
        return self._last_taken > 4

    def take(self) -> list[Row]:
        """Return the values recorded since the last call, all as numbers."""
        rows = [self.rows.popleft() for _ in range(len(self.rows))]
        self._last_taken = len(rows)
        if rows:
            self._last_step = rows[-1][0]
        if self._fetching:
            # A row that is recorded meanwhile sets it again.
            self._fetching = False
            _fetch(rows)
        return rows


def rows_to_frames(rows: Sequence[Row]) -> list[Rows]:
    """Return frames of rows, one for each combination of names."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[2]), []).append(row)
    return [
        Rows(
            group="metrics",
            names=names,
            steps=array("d", [row[0] for row in members]),
            times=array("d", [row[1] for row in members]),
            columns=tuple(array("d", _column(members, name)) for name in names),
        )
        for names, members in groups.items()
        if names
    ]


def _column(rows: Sequence[Row], name: str) -> list[float]:
    # `take` has replaced every tensor by a number.
    return cast("list[float]", [row[2][name] for row in rows])


def number(name: str, value: Value) -> float:
    """Return one value as a number, waiting for its device if need be.

    Args:
        name: its name, for the message.
        value: a number or a tensor of one element.

    Raises:
        ValueError: it is not one number.
    """
    kept = _kept(name, value)
    return float(kept.item()) if isinstance(kept, Tensor) else kept


def _kept(name: str, value: Value) -> Value:
    if isinstance(value, Tensor):
        if value.numel() != 1 or value.is_complex():
            message = f"{name!r} has shape {tuple(value.shape)}: record one real number per name"
            raise ValueError(message)
        return float(value.item()) if _is_here(value) else value.detach()
    try:
        return float(value)
    except (TypeError, ValueError) as problem:
        message = f"{name!r} is {value!r}: record numbers or tensors of one element"
        raise ValueError(message) from problem


def _fetch(rows: Sequence[Row]) -> None:
    """Replace the tensors of rows by numbers, with one copy per device."""
    places: dict[torch.device, list[tuple[dict[str, Value], str, Tensor]]] = {}
    for _, _, values in rows:
        for name, value in values.items():
            if isinstance(value, Tensor):
                places.setdefault(value.device, []).append((values, name, value))
    for found in places.values():
        with torch.no_grad():
            stacked = torch.stack([value.reshape(()).to(torch.float64) for _, _, value in found])
        for (values, name, _), fetched in zip(found, stacked.tolist(), strict=True):
            values[name] = fetched


def _is_here(value: Tensor) -> bool:
    return value.device.type == "cpu"
