"""Ends of training steps and epochs of a module: what it holds, counts and records between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from flodl.graph import state
from flodl.inspect import observation, timing

if TYPE_CHECKING:
    from torch import nn

_KEY = "_flodl_counts"


@final
@dataclass(slots=True)
class Counts:
    """How often `end_step` was called in this epoch, and `end_epoch` at all."""

    steps: int = 0
    epochs: int = 0


def counts_of(module: nn.Module) -> Counts:
    """Return the counts of a module, which are copied and pickled with it."""
    # The dictionary, because setting an attribute would make a FlowModule record again.
    counts: Counts = vars(module).setdefault(_KEY, Counts())
    return counts


def end_step(module: nn.Module) -> None:
    """End a training step: cut the history of held values, count the step, note its times.

    Args:
        module: any module.
    """
    state.detach_state(module)
    timing.note_step(module)
    counts_of(module).steps += 1


def end_epoch(module: nn.Module) -> None:
    """End an epoch: count it, reset the step count, take the means of metrics and noted times.

    Args:
        module: any module.
    """
    observation.flush(module)
    timing.note_epoch(module)
    counts = counts_of(module)
    counts.steps, counts.epochs = 0, counts.epochs + 1
