"""Checks of loader arguments: numbers, samplers, and settings that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from flodl.data.choosing import Mode
from flodl.data.samplers import RandomSampler, SequentialSampler, as_sampler
from flodl.data.sources import StreamSource
from flodl.errors import DataError

if TYPE_CHECKING:
    from flodl.data.protocols import Sampler
    from flodl.data.sources import Source


def require_at_least(least: int, what: str, value: int) -> None:
    """Refuse a number that is too small.

    Raises:
        DataError: it is.
    """
    if value < least:
        raise DataError(f"{what} is {value}; it must be at least {least}")


def require_mode(mode: Mode) -> Mode:
    """Return a mode that exists.

    Raises:
        DataError: there is no such mode.
    """
    if mode not in get_args(Mode):
        raise DataError(f"mode is one of {', '.join(get_args(Mode))}, got {mode!r}")
    return mode


def require_share(what: str, value: float) -> float:
    """Return a valid share of something; it is never corrected silently.

    Raises:
        DataError: it is 0 or less, or more than 1.
    """
    if not 0 < value <= 1:
        raise DataError(f"{what} is {value}; it must be above 0 and at most 1")
    return value


def chosen_sampler(source: Source, given: Any, shuffle: bool | None, seed: int) -> Sampler | None:
    """Return the sampler that decides the order; None for a stream.

    Raises:
        DataError: the arguments contradict each other, or the order of a stream is to be chosen.
    """
    if isinstance(source, StreamSource):
        if shuffle or given is not None:
            raise DataError(
                f"{source.label} can only be read from its beginning, so its order cannot be chosen: "
                "pass no sampler, and shuffle=False"
            )
        return None
    if given is not None:
        if shuffle:
            raise DataError("a sampler decides the order, so shuffle=True contradicts it")
        return as_sampler(given, seed)
    if shuffle is False:
        return SequentialSampler(source.length)
    return RandomSampler(source.length, seed)


def require_indices(source: Source, wish: Mode, workers: int) -> None:
    """Refuse what needs samples by index for a stream.

    Raises:
        DataError: it is wanted all the same.
    """
    if isinstance(source, StreamSource) and (wish == "resident" or workers):
        what = "read by workers" if workers else "resident"
        raise DataError(
            f"{source.label} can only be read from its beginning, so it cannot be {what}"
        )


def require_a_batch(samples: int, batch_size: int, batches: int) -> None:
    """Refuse epochs without a single batch.

    Raises:
        DataError: there is none.
    """
    if batches == 0:
        raise DataError(
            f"there are {samples} samples and batch_size is {batch_size}, so with drop_last=True there is "
            "no batch; make it smaller, or pass drop_last=False"
        )
