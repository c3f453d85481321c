"""The state of every random number generator that user code draws from: set and read."""

from __future__ import annotations

import random
import sys
from hashlib import blake2b

import torch

from flodl_verify.sandbox.memory import tensor_bytes


def seed_all(seed: int) -> None:
    """Seed torch, `random`, and numpy when it is loaded."""
    # Not `torch.manual_seed`: on a machine without a GPU it formats a stack trace every time.
    _GENERATOR.manual_seed(seed)
    _SEED(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def random_state() -> dict[str, str]:
    """Return a digest per generator: equal digests mean that equally many numbers were drawn."""
    state = {
        "torch": _digest(tensor_bytes(_GENERATOR.get_state())),
        "random": _digest(repr(_STATE()).encode()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = _digest(keys.tobytes() + repr((kind, rest)).encode())
    return state


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()


# Bound before user code runs, which may put others in their place.
_GENERATOR = torch.default_generator
_SEED, _STATE = random.seed, random.getstate
