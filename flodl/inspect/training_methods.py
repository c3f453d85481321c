"""The methods of a graph that end a training step; `Trainer.setup` gives them something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final

from flodl.errors import GraphError
from flodl.graph.planned_module import PlannedModule
from flodl.inspect.viewer import AbstractViewer

if TYPE_CHECKING:
    from torch import nn

_KEY = "_flodl_training"


class Session(Protocol):
    """The interface that ends a step; `flodl.train.session.TrainingSession` has it."""

    training_step: int

    def step(self) -> bool:
        """End a step."""
        ...

    def set_lr(self, lr: float) -> None:
        """Set the learning rate."""
        ...

    def set_scheduler(self, scheduler: Any) -> None:
        """Let a schedule set the learning rate."""
        ...


@final
class _Attached:
    """Holds a session for one model: copies and pickles of the model have none."""

    def __init__(self, session: Session | None = None) -> None:
        self.session = session

    def __deepcopy__(self, memo: dict[int, Any]) -> _Attached:
        del memo
        return _Attached()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Attached, ())


def attach_training(module: nn.Module, session: Session) -> None:
    """Let the training methods of a graph work on a session."""
    # The dictionary, because setting an attribute would make a FlowModule record again.
    vars(module)[_KEY] = _Attached(session)


def session_of(module: nn.Module) -> Session:
    """Return the session that `Trainer.setup` attached.

    Raises:
        GraphError: the model was not set up, or is a plain module, which keeps no session.
    """
    session: Session | None = vars(module).get(_KEY, _Attached()).session
    if session is None and not isinstance(module, PlannedModule):
        raise GraphError(
            f"{type(module).__name__} is no graph: keep the session that Trainer.setup returns, and call "
            "its methods"
        )
    if session is None:
        raise GraphError(
            f"{type(module).__name__} is not set up for training: "
            "call Trainer.setup(model, optimizer) first"
        )
    return session


class TrainingMixin(AbstractViewer):
    """Methods of a graph for a custom training loop, after `Trainer.setup`."""

    def step(self) -> bool:
        """End a training step: clip, set the rate, update, forget gradients; return whether it updated.

        Example:
            >>> import torch
            >>> from flodl import FlowBuilder, Trainer
            >>> model = FlowBuilder.from_(torch.nn.Linear(2, 1)).build()
            >>> _ = Trainer.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
            >>> model(torch.ones(4, 2)).square().mean().backward()
            >>> model.step()
            True
        """
        return session_of(self._viewed).step()

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of the optimizer's first group, the others in proportion."""
        session_of(self._viewed).set_lr(lr)

    def set_scheduler(self, scheduler: Any) -> None:
        """Let a schedule set the learning rate from the next step on."""
        session_of(self._viewed).set_scheduler(scheduler)
