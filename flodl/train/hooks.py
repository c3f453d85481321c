"""Callbacks at the events of a training: plain lists; an empty one costs nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, final

if TYPE_CHECKING:
    from torch import nn

Hook: TypeAlias = "Callable[..., object]"


@final
@dataclass(slots=True)
class Hooks:
    """Functions to call, and their arguments.

    Attributes:
        on_start: `(training)`, before the first step.
        on_step: `(training, loss)`, after every step; the loss is a tensor on the device.
        on_window: `(training, report)`, after every window that several ranks trained.
        on_epoch_start: `(epoch, training)`, before the first step of an epoch.
        on_epoch: `(training, metrics)`, after every epoch, evaluation included.
        on_evaluation: `(training, report)`, after an evaluation on request.
        on_checkpoint: `(training, path)`, after a checkpoint is safe.
        on_end: `(training, reason)`, after the last step, whatever the reason.
    """

    on_start: list[Hook] = field(default_factory=list)
    on_step: list[Hook] = field(default_factory=list)
    on_window: list[Hook] = field(default_factory=list)
    on_epoch_start: list[Hook] = field(default_factory=list)
    on_epoch: list[Hook] = field(default_factory=list)
    on_evaluation: list[Hook] = field(default_factory=list)
    on_checkpoint: list[Hook] = field(default_factory=list)
    on_end: list[Hook] = field(default_factory=list)

    def add(self, event: str, hook: Hook) -> None:
        """Add a callback to an event.

        Raises:
            ValueError: there is no such event.
        """
        known = self.__dataclass_fields__
        if event not in known:
            raise ValueError(f"there is no event `{event}` (there are: {', '.join(known)})")
        getattr(self, event).append(hook)


def call(event: str, hooks: list[Hook], *arguments: Any) -> None:
    """Call all callbacks of an event; one that raises is named."""
    for hook in hooks:
        try:
            hook(*arguments)
        except Exception as error:
            error.add_note(
                f"raised by the {event} callback {described(hook)}; the training ends here"
            )
            raise


def described(hook: Hook) -> str:
    """Return the name and the place of a function."""
    name = getattr(hook, "__qualname__", type(hook).__qualname__)
    try:
        place = f" ({inspect.getsourcefile(hook)}:{inspect.getsourcelines(hook)[1]})"
    except (OSError, TypeError):
        place = ""
    return f"`{name}`{place}"


@final
@dataclass(frozen=True, slots=True)
class MetricsHook:
    """The hook of a function that gets the metrics of an epoch."""

    fn: Callable[[Any], object]

    def __call__(self, training: Any, metrics: Any) -> None:
        """Pass the metrics on."""
        del training
        self.fn(metrics)


@final
@dataclass(frozen=True, slots=True)
class CheckpointHook:
    """The hook of a function that gets the model after every few epochs, on one rank."""

    fn: Callable[[int, nn.Module], object]
    every: int
    is_first: Callable[[], bool] | None

    def __call__(self, training: Any, metrics: Any) -> None:
        """Pass version and model on."""
        version = metrics.epoch + 1
        if version % self.every == 0 and (self.is_first is None or self.is_first()):
            self.fn(version, training.model)
