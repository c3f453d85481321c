"""Hands everything to other tools, too: TensorBoard, wandb, MLflow, trackio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.monitor.frames import Frame


class Sink(Protocol):
    """Something that takes what a monitor records."""

    def put(self, frames: Sequence[Frame]) -> None:
        """Take frames; must not wait."""

    def close(self) -> None:
        """Hand on what is left."""
