"""Random state: one seed for everything, and the whole state as a value."""

import random
from typing import Any

import torch


def seed_all(seed: int) -> None:
    """Seed Python and torch, on every device."""
    random.seed(seed)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """Return the state of every generator that training draws from."""
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def load_rng_state(state: dict[str, Any]) -> None:
    """Put every generator back to where it was."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
