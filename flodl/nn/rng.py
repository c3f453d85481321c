"""Random numbers outside tensors, the same on every platform for the same seed, and seeds for everything."""

from __future__ import annotations

import math
import random
import secrets
import sys
from typing import TYPE_CHECKING, Any, TypeVar, final

import torch

from flodl.nn.stateful import StatefulMixin

if TYPE_CHECKING:
    from collections.abc import MutableSequence

Item = TypeVar("Item")
_DIGITS_OF_F32 = 24


@final
class Rng(StatefulMixin):
    """An independent generator: it neither reads nor disturbs torch's or Python's global ones.

    Example:
        >>> rng = Rng.seed(42)
        >>> items = [1, 2, 3, 4]; rng.shuffle(items); items == [1, 2, 3, 4]
        False
        >>> Rng.seed(42).f64() == Rng.seed(42).f64()
        True
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    @classmethod
    def seed(cls, seed: int) -> Rng:
        """Return a generator that always produces the same numbers for the same seed."""
        return Rng(seed)

    @classmethod
    def from_entropy(cls) -> Rng:
        """Return a generator with an unpredictable seed."""
        return Rng(secrets.randbits(64))

    def usize(self, n: int) -> int:
        """Return an integer from 0 to `n - 1`."""
        if n <= 0:
            raise ValueError(f"there is no integer below {n} and from 0 on")
        return self._random.randrange(n)

    def range(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high - 1`."""
        if high <= low:
            raise ValueError(f"the range {low} to {high} is empty")
        return self._random.randrange(low, high)

    def f64(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        return self._random.random()

    def f32(self) -> float:
        """Return a number from 0 (included) to 1 (excluded) that a 32-bit float holds exactly."""
        return math.ldexp(self._random.getrandbits(_DIGITS_OF_F32), -_DIGITS_OF_F32)

    def bernoulli(self, p: float) -> bool:
        """Return True with probability `p`."""
        if not 0 <= p <= 1:
            raise ValueError(f"a probability is between 0 and 1, got {p}")
        return self._random.random() < p

    def normal(self, mean: float = 0.0, std: float = 1.0) -> float:
        """Return a normally distributed number."""
        # Box-Muller; 1 - u is never 0.
        radius = math.sqrt(-2.0 * math.log(1.0 - self._random.random()))
        return mean + std * radius * math.cos(2.0 * math.pi * self._random.random())

    def shuffle(self, items: MutableSequence[Item]) -> None:
        """Put the items into random order, in place (Fisher-Yates)."""
        for last in range(len(items) - 1, 0, -1):
            other = self._random.randrange(last + 1)
            items[last], items[other] = items[other], items[last]

    def clone(self) -> Rng:
        """Return a generator that continues exactly as this one will."""
        twin = Rng(0)
        twin._random.setstate(self._random.getstate())
        return twin

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the stream of numbers."""
        version, words, gauss = self._random.getstate()
        return {"version": version, "words": list(words), "gauss": gauss}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved position."""
        state = (state_dict["version"], tuple(state_dict["words"]), state_dict["gauss"])
        self._random.setstate(state)


def manual_seed(seed: int) -> torch.Generator:
    """Seed torch on every device and return the default generator."""
    return torch.manual_seed(seed)


def cuda_manual_seed_all(seed: int) -> None:
    """Seed torch on every GPU; without GPUs, do nothing."""
    torch.cuda.manual_seed_all(seed)


def seed_all(seed: int) -> Rng:
    """Seed torch, Python's `random`, and NumPy if the program uses it; return a generator of our own."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    return Rng.seed(seed)
