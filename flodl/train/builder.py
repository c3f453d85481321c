"""`Trainer.builder`: one call per decision, then `run().join()`."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final, get_args

import torch
from torch import nn

from flodl import log
from flodl.data.loader import DataLoader
from flodl.errors import TrainingError
from flodl.nn.optimizers import optimizer_of
from flodl.nn.rng import seed_all
from flodl.observe.trend import Mode, Trend
from flodl.runs.checkpoints import Keep
from flodl.train.hooks import CheckpointHook, Hook, Hooks, MetricsHook
from flodl.train.outcome import RunHandle
from flodl.train.protocols import MonitorLike
from flodl.train.rank_order import RankOrder
from flodl.train.schedules import Every, Wanted
from flodl.train.settings import (
    Exactness,
    OnSignal,
    chosen_device,
    named_devices,
    require_one_process,
    started_place,
)
from flodl.train.stopping import NoBetter, StopRule, TrendRule
from flodl.train.timeline.adapter import TimedMonitor

if TYPE_CHECKING:
    from flodl.distributed import ElChe
    from flodl.distributed.team.place import Place
    from flodl.runs.directory import RunDirectory
    from flodl.step.recipe import Precision, TrainFn
    from flodl.step.step import Mode as StepMode
    from flodl.train.cadence.averaging import Averaging
    from flodl.train.checkpointing import ResumeFrom
    from flodl.train.evaluation import EvalFn
    from flodl.train.sync.sharing import Sharing
    from flodl.train.timeline import Timeline
    from flodl.train.trainer import Trainer


@final
class TrainerBuilder:
    """Collects the decisions of a training; nothing is made before `run()`.

    Example:
        >>> import torch
        >>> from flodl import Trainer
        >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
        >>> def train_step(model, batch):
        ...     x, y = batch
        ...     return torch.nn.functional.mse_loss(model(x), y)
        >>> builder = (
        ...     Trainer.builder(
        ...         lambda: torch.nn.Linear(1, 1), lambda params: torch.optim.SGD(params, lr=0.5), train_step
        ...     )
        ...     .dataset([x, 3 * x]).batch_size(16).num_epochs(20).seed(0)
        ...     .step("eager").progress(False)
        ... )
        >>> state = builder.run().join()
        >>> round(state.parameters["weight"].item(), 2)
        3.0
    """

    def __init__(
        self, trainer: type[Trainer], model_factory: Any, optim_factory: Any, train_fn: TrainFn
    ) -> None:
        self._trainer = trainer
        self._model_factory = model_factory
        self._optim_factory = optim_factory
        self._train_fn = train_fn
        self._data: Any = None
        self._batch_size: int | None = None
        self._device: str | torch.device | None = None
        self._resume: ResumeFrom | None = None
        self._hooks = Hooks()
        self._rules: list[StopRule] = []
        self._parts: dict[str, Any] = {}
        self._settings: dict[str, Any] = {}
        self._checkpoint_fn: Callable[[int, nn.Module], object] | None = None
        self._checkpoint_every = 1
        self._asked: int | str | Sequence[str] | None = None
        self._devices: tuple[str, ...] = ()
        self._policy = ""
        self._exact: Exactness = "sum"
        self._cadence: dict[str, Any] = {}
        self._lr_scale_ratio = 0.0
        self._team: dict[str, Any] = {}
        self._timeline: Timeline | None = None
        self._metrics_fns: list[Callable[[Any], object]] = []

    # ---- data --------------------------------------------------------------------------------

    def dataset(self, data: Any) -> Self:
        """Train on a data set (with `batch_size`), a loader, a list of batches, or a function of them."""
        self._data = data
        return self

    def batch_size(self, samples: int) -> Self:
        """Make batches of so many samples."""
        self._batch_size = samples
        return self

    def evaluate(
        self,
        data: Any,
        fn: EvalFn | None = None,
        *,
        every: int = 1,
        batch_size: int | None = None,
    ) -> Self:
        """Evaluate after every epoch, or every few; the metrics are called `val_...`.

        Args:
            data: as for `dataset`: a loader, a list of batches, or with a batch size a data set, such as
                `[x, y]`; a data set is read in its order, to its end.
            fn: `fn(model, batch)` returns a loss, `(loss, {"name": value})` or the table; the train
                function if not given.
            every: epochs between two evaluations.
            batch_size: samples per batch, for a data set; that of the training if not given.
        """
        if batch_size is not None:
            data = DataLoader(data, batch_size, shuffle=False, drop_last=False)
        self._parts.update(evaluate_on=data, evaluate_fn=fn)
        return self._set(evaluate_every=every)

    # ---- length ------------------------------------------------------------------------------

    def num_epochs(self, epochs: int) -> Self:
        """Train for so many epochs in total, those before a resume included."""
        return self._set(epochs=epochs)

    def max_steps(self, steps: int) -> Self:
        """End after so many batches in total."""
        return self._set(max_steps=steps)

    def max_seconds(self, seconds: float) -> Self:
        """End after so much time."""
        return self._set(max_seconds=seconds)

    def early_stop(
        self,
        metric: str = "val_loss",
        *,
        patience: int = 5,
        minimum: float = 0.0,
        mode: Mode = "min",
    ) -> Self:
        """End when a metric has not got better, by more than `minimum`, for `patience` epochs."""
        self._rules.append(NoBetter(metric, patience, minimum, mode))
        return self

    def stop_when(
        self, metric: str, question: Callable[[Trend], bool], *, mode: Mode = "min"
    ) -> Self:
        """End when a question about the trend of a metric is answered with yes.

        Example: `.stop_when("loss", lambda trend: trend.stalled(5, 1e-4))`.
        """
        self._rules.append(TrendRule(metric, question, mode))
        return self

    # ---- the step ----------------------------------------------------------------------------

    def step(self, mode: StepMode) -> Self:
        """Choose how a step runs: `auto`, `eager`, `graph` or `compiled`."""
        return self._set(step=mode)

    def precision(self, precision: Precision | None) -> Self:
        """Train in mixed precision, `bf16` or `fp16`."""
        return self._set(precision=precision)

    def scaler(self, scaler: torch.amp.GradScaler) -> Self:
        """Scale the loss with a `GradScaler` of your own; `precision("fp16")` makes one by itself."""
        self._parts["scaler"] = scaler
        return self

    def max_grad_norm(self, norm: float | None) -> Self:
        """Clip the norm of all gradients."""
        return self._set(clip_norm=norm)

    def accumulate(self, batches: int) -> Self:
        """Update after so many batches, with the mean of their gradients."""
        return self._set(accumulate=batches)

    def ema(self, decay: float = 0.999) -> Self:
        """Keep averaged weights; evaluation uses them."""
        return self._set(ema=decay)

    def fused(self, wanted: bool) -> Self:
        """Use fused optimizer kernels where they were left open (yes by default)."""
        return self._set(fused=wanted)

    def scheduler(
        self, scheduler: Wanted, *, every: Every | None = None, metric: str = "val_loss"
    ) -> Self:
        """Let a schedule set the learning rate.

        Args:
            scheduler: one of flodl, or a function of the optimizer that returns one of flodl or torch.
            every: `step` or `epoch`; by default flodl's move with every update, torch's with every epoch.
            metric: the metric that a plateau schedule observes.
        """
        self._parts.update(scheduler=scheduler, scheduler_every=every, scheduler_metric=metric)
        return self

    def nan_guard(self, wanted: bool) -> Self:
        """End at the first loss that is not finite (yes by default)."""
        return self._set(nan_guard=wanted)

    # ---- place -------------------------------------------------------------------------------

    def device(self, device: str | torch.device) -> Self:
        """Train on a device; by default on a GPU if there is one."""
        self._device = device
        return self

    def devices(self, devices: int | Sequence[str]) -> Self:
        """Train on several devices, with one process for each; alpha.

        Args:
            devices: their names, such as `["cuda:0", "cuda:1"]`; or a number of GPUs, and of processes on
                the CPU where there is no GPU. `"all"` is every GPU of this machine, or the CPU. In a process
                of torchrun, SLURM or `fdl launch`, it is those processes.

        Raises:
            DeviceError: a device is not there.
        """
        self._asked = devices
        # Where a launcher started the ranks, each looks for its own device in `run`.
        self._devices = named_devices(devices) if started_place() is None else ()
        return self

    def policy(self, policy: str, *, exact: Exactness | None = None) -> Self:
        """Choose how the work of several devices becomes one model; `"cadence"` without a choice.

        Args:
            policy: `ApplyPolicy.Cadence`: each device trains alone for a window of time, then the weights
                are averaged; little waiting, also on unequal devices. `ApplyPolicy.Async`: the same, and
                each device trains the next window while the last one is averaged. `ApplyPolicy.Sync`: an
                update has the batches of `accumulate` in total, so that the numbers are those of one
                device, whatever the devices, their number and their speeds.
            exact: for Sync: `"sum"` (the default) is equal up to rounding. `"bits"` adds up in an order that
                depends on batches only: the same bits on 1, 2 or 8 devices of one kind, also if ranks die
                in between.

        Raises:
            TrainingError: another policy, or another kind of equality.
        """
        if str(policy) not in ("sync", "cadence", "async"):
            raise TrainingError(
                f'there is no policy {str(policy)!r}; use .policy("cadence"), which averages, '
                '.policy("async"), which trains on meanwhile, or .policy("sync"), which is exact'
            )
        if exact is not None and str(policy) != "sync":
            raise TrainingError(
                f"exact={exact!r} is a choice of policy sync; policy {policy} averages weights"
            )
        if exact not in (None, *get_args(Exactness)):
            raise TrainingError(f'exact is "sum" or "bits", got {exact!r}')
        self._policy, self._exact = str(policy), exact or "sum"
        return self

    def el_che(self, el_che: ElChe) -> Self:
        """Set how policies Cadence and Async choose their windows: limits, speed hints, fixed shares."""
        self._cadence["el_che"] = el_che
        return self

    def lr_scale_ratio(self, ratio: float) -> Self:
        """Raise learning rates with the number of devices, for policies Cadence and Async.

        All rates, those of schedules included, are multiplied by `1 + (devices - 1) * ratio`. The devices
        are those that begin; the factor stays if some die or join. A resume has the factor of its devices.

        Args:
            ratio: 0 for rates as on one device (as without a choice), 1 for the linear scaling rule
                (https://arxiv.org/abs/1706.02677).

        Raises:
            TrainingError: the ratio is negative or not finite.
        """
        if not 0.0 <= ratio < float("inf"):
            raise TrainingError(
                f"the ratio is {ratio}; it is at least 0, and 1 is the linear rule"
            )
        self._lr_scale_ratio = ratio
        return self

    def outer(self, lr: float, momentum: float = 0.9) -> Self:
        """Let an optimizer of averages (DiLoCo) move the weights of policy Cadence or Async, not their mean.

        Args:
            lr: how far along the mean; 0.7 is that of the paper.
            momentum: Nesterov momentum, from 0 to below 1.

        Raises:
            TrainingError: a number is out of range.
        """
        if not 0.0 < lr < float("inf") or not 0.0 <= momentum < 1.0:
            raise TrainingError(
                f"lr is {lr} and momentum {momentum}; lr must be above 0, momentum from 0 to below 1"
            )
        self._cadence["outer"] = (lr, momentum)
        return self

    def guard(self, threshold: float) -> Self:
        """Let policies Cadence and Async shorten windows where devices drift apart by more than this part.

        Args:
            threshold: distance of a device from the mean, relative to the mean; 0.05 without a choice.

        Raises:
            TrainingError: the threshold is not positive.
        """
        if not 0.0 < threshold < float("inf"):
            raise TrainingError(f"the threshold is {threshold}; it must be positive and finite")
        self._cadence["guard"] = threshold
        return self

    def no_divergence_guard(self) -> Self:
        """Let policies Cadence and Async choose their windows by their cost alone."""
        self._cadence["guard"] = None
        return self

    def patience(self, seconds: float) -> Self:
        """Wait so long for a rank that gives no sign of life; then the others go on without it."""
        self._team["patience"] = seconds
        return self

    def min_ranks(self, ranks: int) -> Self:
        """End the run when fewer ranks are left than these."""
        self._team["min_ranks"] = ranks
        return self

    def respawn(self, times: int) -> Self:
        """Start another rank in the place of one that died or hung, so many times in all.

        It joins the others between two windows, with the state that they have then. Ranks that a launcher
        started are not replaced.

        Args:
            times: 0 for never, as without a choice.
        """
        self._team["respawn"] = times
        return self

    def seed(self, seed: int) -> Self:
        """Seed everything before the model is made, and the order of the data."""
        return self._set(seed=seed)

    # ---- what it leaves ----------------------------------------------------------------------

    def run_dir(self, directory: RunDirectory | str | Path) -> Self:
        """Keep the run in a directory: configuration, environment, checkpoints."""
        self._parts["run_dir"] = directory
        return self

    def checkpoints(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        epochs: int | None = 1,
        keep_last: int = 3,
        keep_best: int = 1,
        metric: str = "loss",
        mode: Literal["min", "max"] = "min",
        beside: bool | None = None,
    ) -> Self:
        """Set when checkpoints are written, and which of them stay.

        Args:
            steps: steps between two.
            seconds: seconds between two.
            epochs: epochs between two.
            keep_last: how many of the newest stay.
            keep_best: how many of the best stay.
            metric: the metric that decides which is better.
            mode: whether lower or higher is better.
            beside: write them from a copy while the training continues; by default those that take long.
        """
        keep = Keep(last=keep_last, best=keep_best, metric=metric, mode=mode)
        return self._set(
            save_steps=steps,
            save_seconds=seconds,
            save_epochs=epochs,
            save_beside=beside,
            keep=keep,
        )

    def resume(self, source: ResumeFrom = "auto") -> Self:
        """Continue the run in the run directory if there is one, or from what is named."""
        self._resume = source
        return self

    def on_signal(self, what: OnSignal) -> Self:
        """After a signal and its checkpoint: `exit` the process, or `return` the state as it is."""
        return self._set(on_signal=what)

    def monitor(self, monitor: MonitorLike) -> Self:
        """Report everything to a monitor."""
        self._parts["monitor"] = monitor
        return self

    def timeline(self, timeline: Timeline) -> Self:
        """Record when this machine worked and when it waited, with the events of the training.

        Sampling begins with `run()` and ends with the training. With several devices, events of windows and
        epochs are known up to 0.2 s late, those of epochs after their callbacks.
        """
        self._timeline = timeline
        return self

    def progress(self, wanted: bool) -> Self:
        """Show progress on standard error (yes by default, unless a monitor shows it)."""
        return self._set(progress=wanted)

    def flush_every(self, steps: int) -> Self:
        """Look at the losses on a GPU every so many steps."""
        return self._set(flush_every=steps)

    # ---- callbacks ---------------------------------------------------------------------------

    def on(self, event: str, hook: Hook) -> Self:
        """Call a function at an event: `start`, `step`, `epoch_start`, `epoch`, `checkpoint`, `end`.

        With several devices also at `window`, with the training and a `WindowReport`. After an evaluation
        on request also at `evaluation`, with the training and an `EvaluationReport`.
        """
        self._hooks.add(f"on_{event}", hook)
        return self

    def epoch_fn(self, fn: Callable[[int, Any], object]) -> Self:
        """Call `fn(epoch, training)` before every epoch; `training` has rates to set and more."""
        return self.on("epoch_start", fn)

    def metrics_fn(self, fn: Callable[[Any], object]) -> Self:
        """Call `fn(metrics)` after every epoch: once for all devices, where the run began, or on rank 0."""
        self._metrics_fns.append(fn)
        return self

    def checkpoint_fn(self, fn: Callable[[int, nn.Module], object]) -> Self:
        """Call `fn(version, model)` after every epoch, or every few (`checkpoint_every`)."""
        self._checkpoint_fn = fn
        return self

    def checkpoint_every(self, epochs: int) -> Self:
        """Call `checkpoint_fn` every so many epochs."""
        self._checkpoint_every = epochs
        return self

    def _watch_the_machine(self, timeline: Timeline) -> None:
        """Let the timeline sample, and get the events of the training as a monitor does."""
        monitor = self._parts.get("monitor")
        if monitor is None:  # else a timeline alone would hide the progress
            self._settings.setdefault("progress", True)
        trains_here = len(self._devices) < 2
        timed = TimedMonitor(timeline, monitor, hears_epochs=trains_here)
        if trains_here:  # the first callbacks: others may take long
            self._hooks.on_epoch_start.insert(0, timed.begin_epoch)
            self._hooks.on_epoch.insert(0, timed.end_epoch)
        self._parts["monitor"] = timed
        timeline.start(process=trains_here)

    # ---- the run -----------------------------------------------------------------------------

    def run(self) -> RunHandle:
        """Make the model and the optimizer, train, and return a handle on the result."""
        if self._data is None:
            raise TrainingError("there is no data: add .dataset(...)")
        if self._cadence and self._policy == "sync":
            raise TrainingError(
                f"{', '.join(sorted(self._cadence))}: settings of policy cadence, and the policy is sync"
            )
        if self._lr_scale_ratio and self._policy == "sync":
            raise TrainingError(
                "lr_scale_ratio: with policy sync, updates have the batches of `accumulate` for any number "
                "of devices, so the rates of one device fit; leave it out, or use policy cadence"
            )
        if self._timeline is not None:
            timeline, self._timeline = self._timeline, None  # it cannot travel to other processes
            self._watch_the_machine(timeline)
        place = None if self._asked is None else started_place()
        if place is not None:
            return self._run_joined(place)
        if len(self._devices) > 1 or self._policy == "sync":
            return self._run_shared()
        if self._devices:
            self._device = self._devices[0]
        device = chosen_device(self._device)
        for fn in self._metrics_fns:
            self._hooks.add("on_epoch", MetricsHook(fn))
        trainer = self._trainer_on(device, None)
        state = trainer.fit(self._data, batch_size=self._batch_size, resume=self._resume)
        return RunHandle(state, (device,), trainer.model)

    def _run_joined(self, place: Place) -> RunHandle:
        """Train as one of the processes that a launcher or a batch system started."""
        from flodl.train.sync.joined import device_of, require_fit, train_joined

        asked, self._asked = self._asked, None
        assert asked is not None
        require_fit(place, asked)
        device = device_of(place, asked, self._device)
        if place.world_size < 2:
            return self.device(device).run()
        team = dict(self._team)
        if team.pop("respawn", 0):
            log.normal(
                ".respawn(...) replaces no rank here: %s started this one, and would have to start another",
                place.starter,
            )
        return train_joined(self._order(), place, device, team)

    def _order(self) -> RankOrder:
        return RankOrder(self, self._exact if self._policy == "sync" else None)

    def _run_shared(self) -> RunHandle:
        """Begin a training by the rules of several devices, which needs no process for one."""
        # Here, so that a training on one device does not import them.
        from flodl.train.sync.alone import train_alone
        from flodl.train.sync.processes import begin_team

        if self._settings.get("seed") is None:
            self._settings["seed"] = secrets.randbits(31)
        order = self._order()
        if len(self._devices) < 2:
            device = chosen_device(self._devices[0] if self._devices else self._device)
            return train_alone(order, device, self._metrics_fns)
        require_one_process()
        return begin_team(order, self._devices, self._team)

    def _trainer_on(self, device: torch.device, sharing: Sharing | Averaging | None) -> Trainer:
        """Make the model and the optimizer on a device, and their trainer."""
        seed = self._settings.get("seed")
        if seed is not None:
            seed_all(seed)
        model = _made(self._model_factory, device).to(device)
        optimizer = optimizer_of(self._optim_factory, model)
        hooks = self._hooks
        is_first = None if sharing is None else sharing.is_first
        others = 0 if sharing is None else sharing.summer.world_size - 1
        if self._checkpoint_fn is not None:
            hook = CheckpointHook(self._checkpoint_fn, self._checkpoint_every, is_first)
            hooks.add("on_epoch", hook)
        return self._trainer(
            model,
            optimizer,
            self._train_fn,
            stop_rules=self._rules,
            hooks=hooks,
            device=device,
            sharing=sharing,
            rank_scale=1.0 + others * self._lr_scale_ratio,
            **self._parts,
            **self._settings,
        )

    def _set(self, **settings: Any) -> Self:
        self._settings.update(settings)
        return self


def _made(factory: Any, device: torch.device) -> nn.Module:
    """Return the model of a factory that takes a device or nothing; a model is its own factory."""
    if isinstance(factory, nn.Module):
        return factory
    model = factory(device) if _needs_argument(factory) else factory()
    if not isinstance(model, nn.Module):
        raise TrainingError(f"the model factory returned {type(model).__name__}, not a module")
    return model


def _needs_argument(factory: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        for each in parameters
    )
