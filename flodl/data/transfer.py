"""Copies from host to device: pinned memory and a separate stream, so that they overlap with the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch

if TYPE_CHECKING:
    from flodl.data.sources import Tensors


@final
@dataclass(frozen=True, slots=True)
class Placed:
    """Tensors on their way; they may be used after `arrive`.

    Attributes:
        tensors: the tensors on the device.
        event: the event at the end of the copy, on CUDA.
    """

    tensors: Tensors
    event: torch.cuda.Event | None = None

    def arrive(self) -> Tensors:
        """Let the current stream wait for the copy, without stopping the host."""
        if self.event is not None:
            stream = torch.cuda.current_stream(self.tensors[0].device)
            stream.wait_event(self.event)
            for each in self.tensors:
                # The memory was allocated on the other stream: it must not be reused before this one is done.
                each.record_stream(stream)
        return self.tensors


@final
class Transfer:
    """Brings batches to one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, tensors: Tensors) -> Placed:
        """Begin to copy; on the CPU, and for tensors that are there already, there is nothing to do."""
        if all(each.device == self._device for each in tensors):
            return Placed(tensors)
        if self._device.type != "cuda":
            return Placed(tuple(each.to(self._device) for each in tensors))
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            moved = tuple(self._copy(each) for each in tensors)
            event = self._stream.record_event()
        return Placed(moved, event)

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu" and not tensor.is_pinned():
            tensor = tensor.pin_memory()
        return tensor.to(self._device, non_blocking=True)
