"""`Trainer.setup`: the loop stays yours, `model.step()` does what follows the backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor, nn, optim

from flodl.checkpoint.restore import HasState
from flodl.checkpoint.training import Resumed, resume, save_training
from flodl.errors import TrainingError
from flodl.graph.planned_module import PlannedModule
from flodl.graph.state import detach_state, graphs_below, has_state
from flodl.inspect.steps import end_epoch
from flodl.inspect.training_methods import attach_training
from flodl.nn.optimizers import optimizer_of, require_trains
from flodl.nn.parameters import ModelOrder, clip_grad_norm
from flodl.nn.torch_schedules import apply_rate
from flodl.observe.stored_values import require_count, require_number
from flodl.step.ema import Ema
from flodl.step.fusing import fuse
from flodl.step.recipe import Precision, Recipe, require_one_number
from flodl.train.evaluation import autocast_of
from flodl.train.own_loop.refusals import require_divisible, require_policy, require_shareable
from flodl.train.schedules import Every, Schedule, Wanted, schedule_of
from flodl.train.settings import Exactness, require_one_process, started_place
from flodl.train.sources import moved, source_of

if TYPE_CHECKING:
    from flodl.distributed.team.place import Place
    from flodl.train.own_loop.rank_loop import RankLoop

_ASKED_AT_FIRST = 4
_ASKED_EVERY = 32


@runtime_checkable
class HasGraph(Protocol):
    """A task head around a model."""

    def graph(self) -> nn.Module:
        """Return the model inside."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options of `Trainer.setup` besides model and optimizer.

    Attributes:
        data: a loader, a list of batches, or with `batch_size` a data set; for `batches(epoch)`.
        batch_size: samples per batch, for a data set.
        scheduler: sets the learning rate.
        scheduler_every: `step` or `epoch`; see `TrainerBuilder.scheduler`.
        scheduler_metric: the metric that a plateau schedule observes.
        max_grad_norm: the limit for the norm of all gradients.
        accumulate: `step()` updates with every so many calls, with the mean of their gradients; with several
            processes these are the batches of all of them together.
        precision: `bf16` or `fp16`: compute under `session.autocast()`.
        scaler: a `GradScaler` of your own; without one, `fp16` makes one.
        ema: the decay of averaged weights.
        fused: switch the optimizer to its fused kernel where that was left open.
        seed: the seed of the order of a data set; with several processes also of the random numbers of each
            batch, such as those of dropout.
        policy: `"sync"`: processes that torchrun, `fdl launch` or SLURM started divide the batches of
            `batches(epoch)`; one process trains as without it.
        exact: with `policy`: `"sum"` is equal to one process up to rounding, `"bits"` is equal to the bit for
            two or more processes; see `TrainerBuilder.policy`.
        patience: seconds for which the others wait for a process that gives no sign of life.
        min_ranks: fewer processes than these end the training.
    """

    data: Any = None
    batch_size: int | None = None
    scheduler: Wanted | None = None
    scheduler_every: Every | None = None
    scheduler_metric: str = "val_loss"
    max_grad_norm: float | None = None
    accumulate: int = 1
    precision: Precision | None = None
    scaler: torch.amp.GradScaler | None = None
    ema: float | None = None
    fused: bool = False
    seed: int | None = None
    policy: str | None = None
    exact: Exactness = "sum"
    patience: float = 30.0
    min_ranks: int = 1


@final
class TrainingSession:
    """A model with its optimizer, for a loop of your own.

    A step is: forward, loss, `backward`, `step`.  On a graph `model.step()` is the same as `session.step()`.

    Attributes:
        model: the model.
        optimizer: its optimizer.
        ema: averaged weights, if they are kept.
        training_step: updates so far.
        rank: the number of this process among those that train together, 0 if it trains alone.
        world_size: the number of processes that began.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder, Trainer
        >>> model = FlowBuilder.from_(torch.nn.Linear(2, 1)).build()
        >>> session = Trainer.setup(model, lambda params: torch.optim.SGD(params, lr=0.1))
        >>> losses = []
        >>> for _ in range(10):
        ...     loss = (model(torch.ones(4, 2)) - 1).square().mean()
        ...     loss.backward()
        ...     _ = model.step()
        ...     losses.append(loss.item())
        >>> losses[-1] < losses[0], session.training_step
        (True, 10)
    """

    def __init__(
        self, model: nn.Module, optimizer: optim.Optimizer, options: SessionOptions
    ) -> None:
        require_trains(optimizer, model)
        self.model = model
        self.optimizer = optimizer
        self.device = next((each.device for each in model.parameters()), torch.device("cpu"))
        self.training_step = 0
        self.ema = None if options.ema is None else Ema(model, options.ema)
        self._options = options
        self._pending = 0
        self._steps = 0
        self._holds = False
        self._graphs = bool(graphs_below(model))
        self._lr_scale = 1.0
        self._model_order = ModelOrder(model)
        self._scaler = options.scaler
        if self._scaler is None and options.precision == "fp16":
            self._scaler = torch.amp.GradScaler(self.device.type)
        self._ranks: RankLoop | None = None
        self._schedule: Schedule
        self.set_scheduler(options.scheduler)
        if options.fused:
            fuse(optimizer)
        if not model.training:  # parts of it may be in eval mode on purpose
            model.train()
        self.rank, self.world_size = 0, 1
        self._ranks = self._joined()
        if self._ranks is not None:
            self.rank, self.world_size = self._ranks.rank, self._ranks.world_size
            self._ranks.training.schedule = self._schedule

    def _joined(self) -> RankLoop | None:
        """Join the other processes, if a launcher started some."""
        options = self._options
        require_policy(options.policy, options.exact)
        place = None if options.policy is None else started_place()
        if place is None or place.world_size < 2:
            # A script with process groups exchanges gradients by itself.
            if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
                require_one_process('`policy="sync"` and `data` to `Trainer.setup(...)`')
            return None
        return self._join(place)

    def _join(self, place: Place) -> RankLoop:
        options = self._options
        require_divisible(options.accumulate, place.world_size)
        require_shareable(self.model, options.data)
        # Here, so that a training in one process does not import them.
        from flodl.train.own_loop.rank_loop import join_loop

        return join_loop(
            place,
            Recipe(
                model=self.model,
                optimizer=self.optimizer,
                train_fn=_no_loss,
                clip_norm=options.max_grad_norm,
                accumulate=options.accumulate,
                ema=self.ema,
                scaler=self._scaler,
            ),
            source_of(
                options.data, batch_size=options.batch_size, seed=options.seed, device=self.device
            ),
            exact=options.exact,
            seed=options.seed,
            team={"patience": options.patience, "min_ranks": options.min_ranks},
        )

    # ---- one step ----------------------------------------------------------------------------

    def autocast(self) -> AbstractContextManager[object]:
        """Return the scope to compute the loss in; without `precision` it does nothing."""
        return autocast_of(self._options.precision, self.device)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients; with `fp16` or `accumulate` use this instead of `loss.backward()`.

        Raises:
            TrainingError: the loss is not one number.
        """
        require_one_number(loss)
        if self._ranks is not None:
            self._ranks.note(loss)
        shared = loss if self._options.accumulate == 1 else loss / self._options.accumulate
        torch.autograd.backward(shared if self._scaler is None else self._scaler.scale(shared))

    def step(self, closure: Callable[[], Any] | None = None) -> bool:
        """End a step: clip, set the rate, update, forget the gradients; return whether it updated.

        Values that a graph holds for its next call keep no gradient history.

        Args:
            closure: computes the loss and its gradients again, for optimizers such as `LBFGS`.

        Raises:
            TrainingError: a closure is given where gradients are clipped, scaled, accumulated, or summed over
                several processes; or the batch is not one of `batches`, with several processes.
        """
        if closure is not None:
            self._require_plain()
        if self._ranks is not None:
            return self._step_of_ranks(self._ranks)
        if self._graphs and self._remembers():
            detach_state(self.model)
        self._pending += 1
        if self._pending < self._options.accumulate:
            return False
        self._pending = 0
        self._schedule.before_update(self.training_step, self._lr_scale)
        self._update(closure)
        if self.ema is not None:
            self.ema.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.training_step += 1
        if self._schedule.per_update:
            self._schedule.after_update()
        return True

    def _step_of_ranks(self, ranks: RankLoop) -> bool:
        updated = ranks.step()
        self.training_step = ranks.training.update
        return updated

    def _remembers(self) -> bool:
        """Return True if the model holds values for its next call; this walks over its modules."""
        self._steps += 1
        if not self._holds and (self._steps <= _ASKED_AT_FIRST or self._steps % _ASKED_EVERY == 0):
            self._holds = has_state(self.model)
        return self._holds

    def _require_plain(self) -> None:
        options = self._options
        if self._ranks is not None:
            raise TrainingError(
                "step(closure) computes gradients inside the optimizer, and several processes sum them "
                "before it: use an optimizer without a closure, or one process"
            )
        if options.accumulate > 1 or options.max_grad_norm is not None or self._scaler is not None:
            raise TrainingError(
                "step(closure) computes gradients inside the optimizer: clip them in the closure, and "
                "leave `max_grad_norm`, `accumulate`, `scaler` and `fp16` away"
            )

    def _update(self, closure: Callable[[], Any] | None) -> None:
        limit = self._options.max_grad_norm
        if self._scaler is None:
            if limit is not None:
                clip_grad_norm(self._model_order(self._held()), limit)
            if closure is None:
                self.optimizer.step()
            else:
                self.optimizer.step(closure)
            return
        if limit is not None:
            self._scaler.unscale_(self.optimizer)
            clip_grad_norm(self._model_order(self._held()), limit)
        self._scaler.step(self.optimizer)
        self._scaler.update()

    def end_epoch(self, epoch: int, metrics: Mapping[str, float] | None = None) -> None:
        """End an epoch: schedules that move by epochs move on.

        With several processes, they observe the means of the metrics over the processes.

        Raises:
            TrainingError: one of several processes is not through with its batches.
        """
        if self._ranks is not None:
            metrics = self._ranks.means(metrics or {})
        self._schedule.after_epoch(epoch, self._lr_scale, metrics or {})
        if isinstance(self.model, PlannedModule):
            end_epoch(self.model)

    # ---- rates -------------------------------------------------------------------------------

    def set_scheduler(self, scheduler: Wanted | None) -> None:
        """Let a schedule set the rates from here on."""
        self._schedule = schedule_of(
            scheduler,
            self.optimizer,
            every=self._options.scheduler_every,
            metric=self._options.scheduler_metric,
        )
        if self._ranks is not None:
            self._ranks.training.schedule = self._schedule

    def set_lr(self, lr: float) -> None:
        """Set the rate of the first group, the others in proportion."""
        apply_rate(self.optimizer, lr)

    def set_lr_scale(self, factor: float) -> None:
        """Set the factor on what the schedule says."""
        self._lr_scale = factor
        if self._ranks is not None:
            self._ranks.training.lr_scale = factor

    # ---- data --------------------------------------------------------------------------------

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch, on the model's device; one of several processes gets its share.

        Args:
            epoch: the epoch, which decides the order.
            start: batches to leave out, counted over all processes.

        Raises:
            TrainingError: `setup` was given no data; or one of several processes left its last batches early.
        """
        options = self._options
        if self._ranks is not None:
            return self._batches_of_ranks(self._ranks, epoch, start)
        if options.data is None:
            raise TrainingError("there is no data: Trainer.setup(..., data=...)")
        source = source_of(
            options.data, batch_size=options.batch_size, seed=options.seed, device=self.device
        )
        return iter(source.epoch(epoch, start))

    def _batches_of_ranks(self, ranks: RankLoop, epoch: int, start: int) -> Iterator[Any]:
        for batch in ranks.batches(epoch, start):
            self.training_step = ranks.training.update  # windows of others alone may be over
            yield batch
        self.training_step = ranks.training.update

    def to_device(self, batch: Any) -> Any:
        """Return a batch of your own with its tensors on the model's device."""
        return moved(batch, self.device)

    # ---- saving ------------------------------------------------------------------------------

    def save(self, path: Any, *, epoch: int = 0, extra: Mapping[str, Any] | None = None) -> None:
        """Write everything that is needed to continue, with any number of processes; the first one writes.

        Raises:
            CheckpointError: it cannot be written.
            TrainingError: one of several processes is not through with its batches.
        """
        if self._ranks is not None:
            self._ranks.require_between_epochs("the session is saved")
            if not self._ranks.is_first:
                return
        parts: dict[str, HasState] = {"session": self, "schedule": self._schedule}
        save_training(
            path,
            self.model,
            self.optimizer,
            epoch=epoch,
            step=self.training_step,
            parts=parts,
            extra=extra,
        )

    def resume(self, path: Any) -> Resumed:
        """Continue from a file of `save`; the result says the epoch and the extra values.

        Every one of several processes reads it, and has to be through with its batches.

        Raises:
            CheckpointError: it is damaged or does not fit.
            TrainingError: one of several processes is not through with its batches.
        """
        if self._ranks is not None:
            self._ranks.require_between_epochs("the session continues from a file")
        parts: dict[str, HasState] = {"session": self, "schedule": self._schedule}
        return resume(path, self.model, self.optimizer, parts=parts)

    def state_dict(self) -> dict[str, Any]:
        """Return the position, pending gradients, the scaler and the averages."""
        shared = {} if self._ranks is None else self._ranks.state_dict()
        return {
            "training_step": self.training_step,
            "pending": self._pending,
            "gradients": self._gradients() if self._pending else [],
            "lr_scale": self._lr_scale,
            "scaler": None if self._scaler is None else self._scaler.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
            **shared,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue.

        Raises:
            ValueError: a field has another type.
            KeyError: a field is missing.
        """
        for name in ("training_step", "pending"):
            require_count(name, state[name])
        require_number("lr_scale", state["lr_scale"])
        self.training_step, self._pending = state["training_step"], state["pending"]
        self._lr_scale = state["lr_scale"]
        self.optimizer.zero_grad(set_to_none=True)
        if self._ranks is not None:
            self._ranks.load_state_dict(state)
        else:
            for each, gradient in zip(self._held(), state["gradients"], strict=False):
                each.grad = None if gradient is None else gradient.to(each.device)
        if self._scaler is not None and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        if self.ema is not None and state["ema"]:
            self.ema.load_state_dict(state["ema"])

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the other processes together with them, if there are some; the end of the script does it too.

        Raises:
            TrainingError: this process is not through with its batches.
        """
        if self._ranks is not None:
            self._ranks.close()

    def _held(self) -> list[Tensor]:
        return [each for group in self.optimizer.param_groups for each in group["params"]]

    def _gradients(self) -> list[Tensor | None]:
        return [None if each.grad is None else each.grad.clone() for each in self._held()]


def _no_loss(model: Any, batch: Any) -> Tensor:
    """Stand for a train function, which a loop of your own has not."""
    raise NotImplementedError


def set_up(model: Any, factories: tuple[Any, ...], options: Mapping[str, Any]) -> TrainingSession:
    """Make the session of `Trainer.setup`."""
    if not isinstance(model, nn.Module):
        raise TrainingError(f"setup prepares a module, this is a {type(model).__name__}")
    session = TrainingSession(model, _optimizer(model, factories), SessionOptions(**options))
    if isinstance(model, PlannedModule):
        attach_training(model, session)
    return session


def set_up_head(
    head: Any, factories: tuple[Any, ...], options: Mapping[str, Any]
) -> TrainingSession:
    """Make the session of `Trainer.setup_head`: the head is trained, the graphs inside have the step.

    A class of transformers, such as `BertForSequenceClassification`, is a head without a graph: its step is
    `session.step()`.  A `flodl.hf.Head` is no module, and its model is trained.
    """
    inner = head.graph() if isinstance(head, HasGraph) else None
    graph = inner if isinstance(inner, PlannedModule) else None
    trained = head if isinstance(head, nn.Module) else inner
    if not isinstance(trained, nn.Module):
        raise TrainingError(
            f"setup_head prepares a module, or an object whose graph() is one; this is a "
            f"{type(head).__name__}"
        )
    session = set_up(trained, factories, options)
    for each in graphs_below(session.model) if graph is None else (graph,):
        attach_training(each, session)
    return session


def _optimizer(model: nn.Module, factories: tuple[Any, ...]) -> optim.Optimizer:
    if not 1 <= len(factories) <= 2:
        raise TrainingError(
            "setup takes the model, then the optimizer or a function of the parameters that makes it; "
            "a function that makes the model may stand between them"
        )
    return optimizer_of(factories[-1], model)
