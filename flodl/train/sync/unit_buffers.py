"""Buffers of a model over the units of a window, as if one device had trained them in order.

Example: batch normalization with momentum 0.1, and a window of three units. Each unit starts from the
committed buffer b, and its rank notes what the unit adds:

    unit 0   ends at b0                        the whole value: b0
    unit 1   ends at b1 = 0.9 b + 0.1 m1       the addition: b1 - 0.9 b
    unit 2   ends at b2 = 0.9 b + 0.1 m2       the addition: b2 - 0.9 b
    commit   ((b0) * 0.9 + addition 1) * 0.9 + addition 2

which is what one device has after the three, up to rounding, and has the same bits for any ranks. In
training, batch normalization does not read these buffers, so it does not matter that they are stale. Other
buffers that a forward changes add up their changes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn

from flodl.checkpoint.tensors import as_bytes, on_host
from flodl.errors import TrainingError

_TRACKED = ("running_mean", "running_var")
Additions: TypeAlias = dict[str, dict[str, Any]]  # of a unit: by name, how far the old value fades


@final
class UnitBuffers:
    """The buffers of a model during one window after another.

    Args:
        model: the model; its buffers are equal on all ranks.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._committed: dict[str, Tensor] = {}
        self._fading = dict(_norms(model))
        self.begin()

    def begin(self) -> None:
        """Start a window from the present buffers."""
        self._committed = {
            name: each.detach().clone() for name, each in self._model.named_buffers()
        }

    def reset(self, unit: int) -> None:
        """Put the buffers to where the window began; counters of batches count on."""
        if not self._committed:
            return
        with torch.no_grad():
            for name, each in self._model.named_buffers():
                before = self._committed.get(name)
                if before is not None and each.shape == before.shape:
                    each.copy_(before)
            for norm in self._fading.values():
                if norm.num_batches_tracked is not None and norm.training:
                    norm.num_batches_tracked += unit

    def additions(self, unit: int) -> Additions:
        """Return what a unit adds to each buffer that it changed.

        Raises:
            TrainingError: a buffer changed its shape, or is of a type that cannot be added up.
        """
        found: Additions = {}
        if not self._committed and not self._has_buffers(unit):
            return found
        for name, each in self._model.named_buffers():
            before = self._committed.get(name)
            if before is None or before.shape != each.shape:
                raise TrainingError(
                    f"the buffer `{name}` is new or has another shape after a step; with several devices "
                    "the buffers of a model must keep their names and shapes"
                )
            fade, start = 1.0, before
            owner, _, leaf = name.rpartition(".")
            norm = self._fading.get(owner)
            if norm is not None and leaf == "num_batches_tracked":
                start = before + (unit if norm.training else 0)
            if torch.equal(each, start):
                continue
            if each.dtype == torch.bool or each.is_complex():
                raise TrainingError(
                    f"a step changes the buffer `{name}` of type {each.dtype}, whose changes cannot be "
                    "added up over devices; train on one device"
                )
            if norm is not None and leaf in _TRACKED:
                fade = _fade_of(norm)
            # The first unit has what one device would have, to the bit.
            value = each if unit == 0 else each - start * fade if fade != 1.0 else each - start
            found[name] = {"fade": fade, "value": _packed(value)}
        return found

    def _has_buffers(self, unit: int) -> bool:
        """Return True if a model that had no buffers got one; asked in the first unit of a window."""
        return unit == 0 and next(self._model.named_buffers(), None) is not None

    def commit(self, additions: dict[int, Additions]) -> None:
        """Fold the additions of all units, in the order of the units, and write the buffers."""
        if not self._committed:
            return
        with torch.no_grad():
            for name, each in self._model.named_buffers():
                value = self._committed[name]
                for unit, added in sorted(additions.items()):
                    if name not in added:
                        continue
                    own = _unpacked(added[name]["value"], value)
                    fade = added[name]["fade"]
                    if unit == 0:
                        value = own
                    elif fade == 1.0:
                        value = value + own
                    else:
                        value = value * fade + own
                each.copy_(value)
        self.begin()


def _norms(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.running_mean is not None:
            yield name, module


def _fade_of(norm: Any) -> float:
    """Return the factor on the old statistics, after the step."""
    if norm.momentum is not None:
        return 1.0 - float(norm.momentum)
    seen = int(norm.num_batches_tracked)
    return 1.0 - 1.0 / max(seen, 1)


def _packed(value: Tensor) -> str:
    return base64.b64encode(as_bytes(on_host(value))).decode()


def _unpacked(text: str, like: Tensor) -> Tensor:
    flat = torch.frombuffer(bytearray(base64.b64decode(text)), dtype=like.dtype)
    return flat.reshape(like.shape).to(like.device)
