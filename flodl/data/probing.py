"""Facts about a data set from a few samples: size, cost, and whether they stay the same."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch

from flodl.data import randomness
from flodl.data.memory import size_of

if TYPE_CHECKING:
    from flodl.data.sources import AbstractSource


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The findings.

    Attributes:
        problem: why the set cannot be kept as it is, if it cannot.
        draws: whether reading draws random numbers from a global generator.
        sample_bytes: size of one sample.
        seconds: time that reading one sample takes.
    """

    problem: str | None
    draws: bool
    sample_bytes: int
    seconds: float


def probe(source: AbstractSource) -> Probe:
    """Read a few samples twice; the global generators of random numbers are put back afterwards."""
    if source.tensors is not None:
        one = size_of(source.tensors) // source.length
        return Probe(problem=None, draws=False, sample_bytes=one, seconds=0.0)
    before = randomness.state()
    chosen = sorted({0, source.length // 2, source.length - 1})
    try:
        source.fetch(torch.tensor([0]))  # opens files and imports modules, which is not typical
        watched = randomness.state()
        begin = time.perf_counter()
        samples = [source.fetch(torch.tensor([index])) for index in chosen]
        seconds = (time.perf_counter() - begin) / len(chosen)
        again = [source.fetch(torch.tensor([index])) for index in chosen]
        draws = not randomness.unchanged(watched)
    except Exception:
        # Whatever is wrong with a sample is told when its batch is read, with its place in the epoch.
        problem = f"a sample of {source.label} cannot be read"
        return Probe(problem=problem, draws=True, sample_bytes=0, seconds=0.0)
    finally:
        randomness.restore(before)
    return Probe(
        problem=_problem(source, samples, again, draws=draws),
        draws=draws,
        sample_bytes=max(size_of(sample) for sample in samples),
        seconds=seconds,
    )


Samples = list[tuple[torch.Tensor, ...]]


def _problem(
    source: AbstractSource, samples: Samples, again: Samples, *, draws: bool
) -> str | None:
    if draws:
        return f"reading {source.label} draws random numbers, so a sample is never the same twice"
    for sample, twin in zip(samples, again, strict=True):
        pairs = zip(sample, twin, strict=True)
        if len(sample) != len(twin) or not all(_same(one, two) for one, two in pairs):
            return f"a sample of {source.label} was different when it was read again"
    shapes = {tuple(tuple(part.shape) for part in sample) for sample in samples}
    if len(shapes) > 1:
        return f"the samples of {source.label} have different shapes"
    return None


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    equal: torch.Tensor = (one == two) | (one.isnan() & two.isnan())
    return bool(equal.all())
