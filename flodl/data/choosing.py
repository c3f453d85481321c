"""Resident or streaming: the decision, in one line that says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, final

from flodl.data.memory import room_for
from flodl.data.probing import Probe, probe
from flodl.data.sources import AbstractSource, StreamSource

if TYPE_CHECKING:
    import torch

    from flodl.data.sources import Source

Mode = Literal["auto", "resident", "streaming"]
# Reading everything before the first step is worth waiting for, up to here.
_PATIENCE_SECONDS: Final = 5.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choice of a place for the data.

    Attributes:
        resident: whether the whole set shall be on the device.
        draws: whether reading draws random numbers.
        why: one line.
        sample_bytes: size of one sample, 0 if unknown.
    """

    resident: bool
    draws: bool = False
    why: str
    sample_bytes: int = 0


def choose(source: Source, wish: Mode, device: torch.device, most_usage: float) -> Choice:
    """Decide where the data set will be."""
    if isinstance(source, StreamSource):
        why = f"{source.label} can only be read from its beginning"
        return Choice(resident=False, why=f"streaming: {why}")
    found = probe(source)
    if wish == "resident":
        why = "resident: asked for"
    elif wish == "streaming":
        why = "streaming: asked for"
    else:
        obstacle = _obstacle(source, found, device, most_usage)
        size = _readable(found.sample_bytes * source.length)
        why = f"streaming: {obstacle}" if obstacle else f"resident: {size} on {device}"
    return Choice(
        resident=why.startswith("resident"),
        draws=found.draws,
        why=why,
        sample_bytes=found.sample_bytes,
    )


def _obstacle(
    source: AbstractSource, found: Probe, device: torch.device, most_usage: float
) -> str | None:
    if found.problem is not None:
        return found.problem
    if source.tensors is not None and all(each.device == device for each in source.tensors):
        return None
    size, room = found.sample_bytes * source.length, room_for(device, most_usage)
    if size > room:
        return f"{_readable(size)} do not fit into the {_readable(max(0, room))} left on {device}"
    duration = found.seconds * source.length
    if duration > _PATIENCE_SECONDS:
        return f"reading all of {source.label} takes about {duration:.0f} s"
    return None


def _readable(size: int) -> str:
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
