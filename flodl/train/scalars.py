"""`record_scalar`: a number from anywhere inside a train function, averaged over the epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from torch import Tensor

_HELD: Final = threading.local()


def record_scalar(name: str, value: float | Tensor) -> None:
    """Note a number of the running step; its mean over the epoch is among the metrics.

    A tensor stays on its device until the epoch's numbers are looked at.  A captured or compiled step
    does not run Python, so there return `(loss, {"name": tensor})` from the train function instead.

    Args:
        name: the metric.
        value: a number, or a tensor that holds one.

    Example:
        >>> from flodl import drain_scalars, record_scalar
        >>> record_scalar("accuracy", 0.5)
        >>> record_scalar("accuracy", 1.0)
        >>> drain_scalars()
        {'accuracy': [0.5, 1.0]}
    """
    held: dict[str, list[float | Tensor]] = vars(_HELD).setdefault("scalars", {})
    kept = value.detach().clone() if isinstance(value, Tensor) else float(value)
    held.setdefault(name, []).append(kept)


def drain_scalars() -> dict[str, list[float]]:
    """Return the values recorded in this thread, by name, and forget them.

    Example:
        >>> from flodl import drain_scalars
        >>> drain_scalars()
        {}
    """
    held: dict[str, list[float | Tensor]] = vars(_HELD).pop("scalars", {})
    return {name: [float(value) for value in values] for name, values in held.items()}


@contextmanager
def recorded_apart() -> Iterator[dict[str, list[float]]]:
    """Collect what is recorded inside in the table that this returns; what was recorded before stays.

    Example:
        >>> from flodl import drain_scalars, record_scalar
        >>> record_scalar("accuracy", 0.5)
        >>> with recorded_apart() as inside:
        ...     record_scalar("accuracy", 1.0)
        >>> inside, drain_scalars()
        ({'accuracy': [1.0]}, {'accuracy': [0.5]})
    """
    before = vars(_HELD).pop("scalars", {})
    found: dict[str, list[float]] = {}
    try:
        yield found
        found.update(drain_scalars())
    finally:
        vars(_HELD)["scalars"] = before
