"""The global generators of random numbers: kept, restored, and noticed when something draws from them."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

State = tuple[torch.Tensor, Any, Any]


def state() -> State:
    """Return the state of torch's, Python's and NumPy's generator, the last if NumPy is in use."""
    numpy = sys.modules.get("numpy.random")
    return torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.get_state()


def restore(before: State) -> None:
    """Put the generators back."""
    torch.set_rng_state(before[0])
    random.setstate(before[1])
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and before[2] is not None:
        numpy.set_state(before[2])


def unchanged(before: State) -> bool:
    """Return True if nothing has been drawn since."""
    now = state()
    numpy_same = now[2] is before[2] or (
        before[2] is not None
        and now[2][2] == before[2][2]
        and bool((now[2][1] == before[2][1]).all())
    )
    return torch.equal(now[0], before[0]) and now[1] == before[1] and numpy_same


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let everything inside draw from a seed, and nothing outside notice."""
    before = state()
    try:  # a signal may end this at any line
        torch.default_generator.manual_seed(seed >> 1)
        random.seed(seed)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            numpy.seed(seed & 0xFFFFFFFF)
        yield
    finally:
        restore(before)
