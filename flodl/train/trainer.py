"""`Trainer`: from a model, an optimizer and a train function to trained weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn, optim

from flodl.checkpoint.restore import HasState
from flodl.errors import TrainingError
from flodl.runs.directory import RunDirectory
from flodl.step.ema import Ema
from flodl.step.recipe import Recipe
from flodl.step.step import TrainStep, make_step
from flodl.train.builder import TrainerBuilder
from flodl.train.checkpointing import Checkpointing, ResumeFrom, config_of, find_differences
from flodl.train.evaluation import EvalFn, Evaluation
from flodl.train.hooks import Hook, Hooks
from flodl.train.loop import Equipment, Loop
from flodl.train.meters import meter_for
from flodl.train.outcome import Interrupted
from flodl.train.progress import Notices, Progress, progress_for
from flodl.train.protocols import Describing, Evaluating, MonitorLike, Source
from flodl.train.schedules import Every, schedule_of
from flodl.train.session import TrainingSession, set_up, set_up_head
from flodl.train.settings import Settings, chosen_device, hyper_parameters, require_one_process
from flodl.train.sources import evaluation_source_of, source_of
from flodl.train.state import TrainedState, weights_of
from flodl.train.stopping import StopRule
from flodl.train.training import Training

if TYPE_CHECKING:
    from pathlib import Path

    from flodl.step.recipe import TrainFn
    from flodl.train.cadence.averaging import Averaging
    from flodl.train.cadence.cadence_step import CadenceStep
    from flodl.train.schedules import Wanted
    from flodl.train.sync.sharing import Sharing
    from flodl.train.sync.window_step import WindowStep


@final
class Trainer:
    """A training on one device; `Trainer.builder` makes everything, `Trainer.setup` leaves the loop to you.

    Used directly it takes what is there already:

    Example:
        >>> import torch
        >>> from flodl import Trainer
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def train_step(model, batch):
        ...     return (model(batch) - 1).square().mean()
        >>> trainer = Trainer(model, optimizer, train_step, step="eager", progress=False)
        >>> state = trainer.fit([torch.ones(4, 2)] * 8, epochs=3)
        >>> state.trend("loss").improving()
        True
    """

    def __init__(  # noqa: PLR0913  # each is one decision of the caller
        self,
        model: nn.Module,
        optimizer: optim.Optimizer,
        train_fn: TrainFn,
        *,
        scheduler: Wanted | None = None,
        scheduler_every: Every | None = None,
        scheduler_metric: str = "val_loss",
        evaluate_on: Any = None,
        evaluate_fn: EvalFn | None = None,
        scaler: torch.amp.GradScaler | None = None,
        stop_rules: Iterable[StopRule] = (),
        hooks: Hooks | None = None,
        monitor: MonitorLike | None = None,
        run_dir: RunDirectory | str | Path | None = None,
        device: str | torch.device | None = None,
        sharing: Sharing | Averaging | None = None,
        rank_scale: float = 1.0,
        **settings: Any,
    ) -> None:
        """Take the parts; `settings` are the fields of `Settings`.

        `sharing` divides the batches over ranks; `devices` of a builder makes one for each process.
        `rank_scale` is a factor on all learning rates, for the number of ranks.

        Raises:
            TrainingError: a setting is out of range.
            DeviceError: the device is not there.
        """
        self.settings = Settings(**settings)
        self.device = _device_of(model) if device is None else chosen_device(device)
        self.model = model
        self.optimizer = optimizer
        self.hooks = hooks or Hooks()
        self.monitor = monitor
        self.directory = (
            run_dir
            if run_dir is None or isinstance(run_dir, RunDirectory)
            else RunDirectory.at(run_dir)
        )
        self._train_fn = train_fn
        self._evaluate_on = evaluate_on
        self._evaluate_fn = evaluate_fn
        self._scaler = scaler
        self._sharing = sharing
        self._batch_size: int | None = None
        self._training = Training(model, optimizer, self.device)
        if sharing is not None:
            self._training.rank = sharing.summer.rank
            self._training.world_size = sharing.summer.world_size
        self._training.rules = tuple(stop_rules)
        self._training.schedule = schedule_of(
            scheduler, optimizer, every=scheduler_every, metric=scheduler_metric
        )
        self._training.scale_for_ranks(rank_scale)

    # ---- the tiers ---------------------------------------------------------------------------

    @classmethod
    def builder(cls, model_factory: Any, optim_factory: Any, train_fn: TrainFn) -> TrainerBuilder:
        """Begin a training that the library owns: model, data, loop.

        Args:
            model_factory: makes the model: `f()`, or `f(device)`; or the model itself.
            optim_factory: makes the optimizer: `f(parameters)`; or the optimizer itself.
            train_fn: `f(model, batch)` returns the loss, or `(loss, {"name": tensor})`.
        """
        return TrainerBuilder(cls, model_factory, optim_factory, train_fn)

    @classmethod
    def setup(cls, model: nn.Module, *factories: Any, **options: Any) -> TrainingSession:
        """Prepare a model for a loop of your own, in which `model.step()` ends a step.

        Args:
            model: the model.  A graph gets `step()`, and so does the view of a flow module; for any module
                the session has it.
            *factories: the optimizer or a function of the parameters; before it you may pass the function
                that makes the model on a device, which several devices will need.
            **options: see `SessionOptions`; with `policy="sync"` and `data`, processes that torchrun,
                `fdl launch` or SLURM started train the model together.

        Raises:
            TrainingError: an option is impossible, also in one of several processes.
            DeviceError: this is one of several processes, and there is no `policy`.
        """
        return set_up(model, factories, options)

    @classmethod
    def setup_head(cls, head: Any, *factories: Any, **options: Any) -> TrainingSession:
        """Prepare a task head: `session.step()` ends a step, and so does `step()` of the graph inside.

        Args:
            head: a module around an encoder, such as `BertForSequenceClassification`, or an object whose
                `graph()` returns the graph that is trained.
            *factories: as for `setup`.
            **options: see `TrainingSession`.
        """
        return set_up_head(head, factories, options)

    def on(self, event: str, hook: Hook) -> None:
        """Call a function at an event: `start`, `step`, `epoch_start`, `epoch`, `checkpoint`, `end`.

        With several devices also at `window`, with the training and a `WindowReport`. After an evaluation
        on request also at `evaluation`, with the training and an `EvaluationReport`.
        """
        self.hooks.add(f"on_{event}", hook)

    # ---- training ----------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        resume: ResumeFrom | None = None,
    ) -> TrainedState:
        """Train, and return the weights and the history.

        Args:
            data: a loader of flodl or torch, a list of batches, or with `batch_size` a data set.
            epochs: epochs in total; those of the settings if not given.
            batch_size: samples per batch, for a data set.
            resume: `"auto"` to continue the run in the run directory if there is one; a checkpoint or a
                run directory to continue from that.

        Raises:
            TrainingError: there is no data, it gives no batches, or the optimizer is another model's.
            DeviceError: this is one of several processes.
            NonFiniteError: a loss is infinite or not a number.
            Interrupted: a signal ended the training; a checkpoint is written.
        """
        if epochs is not None:
            self.settings = Settings(**{**_fields(self.settings), "epochs": epochs})
        if self._sharing is None or self._sharing.summer.world_size < 2:
            require_one_process()
        source = self._source(data, batch_size)
        self._batch_size = batch_size
        if self.directory is None or (self._sharing is not None and self._sharing.is_locked):
            return self._fit(source, resume)
        with self.directory.held():
            return self._fit(source, resume)

    def _source(self, data: Any, batch_size: int | None) -> Source:
        return source_of(data, batch_size=batch_size, seed=self.settings.seed, device=self.device)

    def _fit(self, source: Source, resume: ResumeFrom | None) -> TrainedState:
        settings = self.settings
        shown = settings.progress if settings.progress is not None else self.monitor is None
        progress = progress_for(shown)
        notices = Notices(progress, self.monitor)
        ema = None if settings.ema is None else Ema(self.model, settings.ema)
        step = self._step(source, ema, notices)
        try:
            return self._run(source, resume, step, progress, notices, ema)
        finally:
            step.close()
            progress.close()

    def _step(
        self, source: Source, ema: Ema | None, notices: Notices
    ) -> TrainStep | WindowStep | CadenceStep:
        settings, report = self.settings, notices.report("step")
        if self._sharing is not None:
            recipe = Recipe(
                model=self.model,
                optimizer=self.optimizer,
                train_fn=self._train_fn,
                clip_norm=settings.clip_norm,
                precision=settings.precision,
                accumulate=settings.accumulate,
                ema=ema,
                scaler=self._scaler,
            )
            return self._sharing.step(recipe, source, self.device, settings, report)
        step = make_step(
            self.model,
            self.optimizer,
            self._train_fn,
            mode=settings.step,
            clip_norm=settings.clip_norm,
            precision=settings.precision,
            accumulate=settings.accumulate,
            ema=ema,
            scaler=self._scaler,
            fused=settings.fused,
            report=report,
        )
        step.foresee(lambda: self._batches_left(source))
        return step

    def _batches_left(self, source: Source) -> float | None:
        """Return the number of batches that this training will still take, at most; None if unknown."""
        settings, training, length = self.settings, self._training, source.length()
        limits = []
        if length is not None:
            limits.append((settings.epochs - training.epoch) * length - training.position)
        if settings.max_steps is not None:
            limits.append(settings.max_steps - training.step)
        return min(limits, default=None)

    def _run(
        self,
        source: Source,
        resume: ResumeFrom | None,
        step: TrainStep | WindowStep | CadenceStep,
        progress: Progress,
        notices: Notices,
        ema: Ema | None,
    ) -> TrainedState:
        training = self._training
        parts: dict[str, HasState] = {
            "training": training,
            "step": step,
            "schedule": training.schedule,
        }
        checkpointing = Checkpointing(self.directory, self.settings, training, parts)
        shared = None if isinstance(step, TrainStep) else step
        if self._sharing is not None:
            checkpointing.is_writer = self._sharing.is_first
        loop = Loop(
            Equipment(
                training=training,
                settings=self.settings,
                step=step,
                source=source,
                meter=meter_for(self.device, self.settings.flush_every),
                checkpointing=checkpointing,
                hooks=self.hooks,
                progress=progress,
                evaluation=self._evaluation(ema),
                shared=shared,
                monitor=self.monitor,
                notices=notices,
            )
        )
        joins = self._sharing is not None and self._sharing.summer.is_newcomer
        self._describe(notices, source, joins or resume is not None)
        if self._sharing is not None and joins:
            loop.enter(self._sharing.summer.enter())
        elif resume is not None:
            scale = training.rank_scale
            checkpointing.resume(resume, notices.report("resume"), loop.restore)
            training.scale_for_ranks(scale)  # other ranks may have written it
        if training.rank_scale != 1.0:
            notices.add("step", f"learning rates times {training.rank_scale:g} (lr_scale_ratio)")
        if not self.model.training:
            self.model.train()
        if self.monitor is not None:
            self._introduce(self.monitor, source)
        reason = loop.run()
        state = self._state(loop, step, checkpointing, notices, reason, ema)
        self._tell_end(reason)
        if loop.signal and self.settings.on_signal == "exit":
            raise Interrupted(loop.signal, state)
        return state

    def _evaluation(self, ema: Ema | None) -> Evaluating | None:
        if self._evaluate_on is None:
            return None
        alone = Evaluation(
            source=evaluation_source_of(
                self._evaluate_on, batch_size=self._batch_size, device=self.device
            ),
            fn=self._evaluate_fn or self._train_fn,
            ema=ema,
            precision=self.settings.precision,
            device=self.device,
        )
        return alone if self._sharing is None else self._sharing.evaluation(alone)

    def _describe(self, notices: Notices, source: Source, resuming: bool) -> None:
        """Store how the run is set up, or say in what it differs from how it was begun."""
        if self.directory is None:
            return
        config = config_of(self.settings, self._training, self._train_fn, source.identity())
        begun = self.directory.checkpoints.entries()
        if begun and not resuming:
            raise _already_begun(self.directory)
        if begun:
            for line in find_differences(self.directory, config):
                notices.add("resume", f"not as the run began - {line}")
        if self._sharing is None or self._sharing.is_first():
            self.directory.write_config(config)

    def _introduce(self, monitor: MonitorLike, source: Source) -> None:
        """Show the model and the hyper-parameters."""
        monitor.watch(self.model)
        shows: object = monitor
        if isinstance(shows, Describing):
            values = hyper_parameters(self.settings, self.optimizer, source.identity())
            shows.set_metadata({"training": values})

    def _tell_end(self, reason: str) -> None:
        if self.monitor is not None:
            if reason == "finished":
                self.monitor.finish()
            else:
                self.monitor.flush()

    def _state(
        self,
        loop: Loop,
        step: TrainStep | WindowStep | CadenceStep,
        checkpointing: Checkpointing,
        notices: Notices,
        reason: str,
        ema: Ema | None,
    ) -> TrainedState:
        parameters, buffers = weights_of(self.model)
        averages = (
            {} if ema is None else {n: each.cpu().clone() for n, each in ema.averages.items()}
        )
        return TrainedState(
            parameters=parameters,
            buffers=buffers,
            averages=averages,
            history=tuple(loop.history),
            epochs=self._training.epoch,
            steps=self._training.step,
            stopped_by=reason,
            decision=step.decision,
            checkpoint=checkpointing.last.path if checkpointing.last else None,
            notices=tuple(notices.lines),
        )


def _device_of(model: nn.Module) -> torch.device:
    return next((each.device for each in model.parameters()), torch.device("cpu"))


def _fields(settings: Settings) -> dict[str, Any]:
    return {**settings.plain(), "keep": settings.keep}


def _already_begun(directory: RunDirectory) -> TrainingError:
    return TrainingError(
        f'{directory.path}: a run has begun here already; continue it with resume="auto" '
        '(`.resume("auto")` on a builder), or give another directory'
    )
