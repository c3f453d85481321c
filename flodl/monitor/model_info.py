"""The model on the page of a monitor: its name, its hash, its size and its picture."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from flodl.checkpoint.topology import structural_hash, unwrapped
from flodl.errors import FlodlError
from flodl.graph.planned_module import PlannedModule
from flodl.graph.texts import spec_of
from flodl.inspect.drawing import part_of
from flodl.inspect.heat import profiled_part
from flodl.visual.assemble import View
from flodl.visual.svg import svg_text

if TYPE_CHECKING:
    from torch import nn


def identity_of(model: nn.Module) -> dict[str, Any]:
    """Return the name, the structural hash and the number of parameters of a model."""
    inner = unwrapped(model)
    label = type(inner).__name__
    if isinstance(inner, PlannedModule):
        with contextlib.suppress(FlodlError):
            label = spec_of(inner).label or label
    sizes = [(each.numel(), each.requires_grad) for each in inner.parameters()]
    total = sum(size for size, _ in sizes)
    trainable = sum(size for size, trains in sizes if trains)
    return {
        "label": label,
        "hash": structural_hash(inner),
        "parameters": {"total": total, "trainable": trainable, "frozen": total - trainable},
    }


def picture_of(model: nn.Module, *, heat: bool) -> str:
    """Return the picture of a model, nothing for a flow that has not been recorded yet.

    Args:
        model: any module.
        heat: colour it by the times of its last forward, if it is being profiled.
    """
    inner = unwrapped(model)
    if heat:
        try:
            return svg_text(profiled_part(inner), View())
        except FlodlError:
            pass  # no forward has run since profiling began: the plain picture will do
    try:
        return svg_text(part_of(inner), View())
    except FlodlError:
        return ""
