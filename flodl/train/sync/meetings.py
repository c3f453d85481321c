"""Meetings of all ranks between windows: texts, wishes to stop, means."""

from __future__ import annotations

import json
from collections.abc import Mapping

from flodl.distributed.team.exact_runner import ExactWork, UnitSummer


def meet(summer: UnitSummer, text: str) -> dict[int, str]:
    """Exchange texts between the ranks; those that are empty are left out."""
    work = ExactWork(train=float, tensors=lambda _held: [], note=lambda: text)
    return dict(summer.add_up(0, work).notes)


def agree(summer: UnitSummer, wish: str) -> str:
    """Return why all ranks stop, if one of them wishes to; empty if none does."""
    return next((text for _, text in sorted(meet(summer, wish).items())), "")


def mean_of(
    summer: UnitSummer, values: Mapping[str, float], weight: float = 1.0
) -> dict[str, float]:
    """Return the means over the ranks of values that each rank has of its own.

    Args:
        summer: the ranks.
        values: those of this rank; a rank may lack some.
        weight: how much this rank counts.
    """
    text = json.dumps({"weight": weight, "values": values}) if values and weight else ""
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for _, told in sorted(meet(summer, text).items()):
        found = json.loads(told)
        for name, value in found["values"].items():
            sums[name] = sums.get(name, 0.0) + found["weight"] * value
            weights[name] = weights.get(name, 0.0) + found["weight"]
    return {name: total / weights[name] for name, total in sums.items()}
