"""The loop itself: steps, epochs, evaluation, and the checks between steps."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from torch import Tensor

from flodl.checkpoint.restore import random_state, set_random_state
from flodl.errors import CheckpointError, TrainingError
from flodl.graph.state import detach_state, graphs_below, has_state
from flodl.inspect.observation import flush as flush_graph
from flodl.inspect.observation import observed_apart
from flodl.inspect.steps import end_epoch
from flodl.runs.checkpoints import Saved
from flodl.step.step import TrainStep
from flodl.train.checkpointing import Checkpointing
from flodl.train.hooks import Hooks, call
from flodl.train.meters import Meter
from flodl.train.nonfinite import non_finite
from flodl.train.progress import Notices, Progress
from flodl.train.protocols import (
    Batches,
    Evaluating,
    MonitorLike,
    SharedWindows,
    Source,
    StepState,
)
from flodl.train.run_control import requests_of, rest
from flodl.train.scalars import recorded_apart
from flodl.train.settings import Settings
from flodl.train.signals import Signals, StopNow
from flodl.train.state import EpochMetrics, EvaluationReport, RankShare, metrics_of
from flodl.train.training import Training

_LOOK = 0.5  # seconds between two looks at most, so that progress moves


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The objects that the loop works with; `shared` instead of single steps if ranks share the work."""

    training: Training
    settings: Settings
    step: StepState
    source: Source
    meter: Meter
    checkpointing: Checkpointing
    hooks: Hooks
    progress: Progress
    notices: Notices
    evaluation: Evaluating | None = None
    monitor: MonitorLike | None = None
    shared: SharedWindows | None = None


@final
class Loop:
    """Runs a training to its end.

    Attributes:
        history: the epochs so far.
        stop_at: the step before which no check is needed; a signal sets it to 0.
    """

    def __init__(self, equipment: Equipment) -> None:
        self.history: list[EpochMetrics] = []
        self.stop_at: float = 0
        self._it = equipment
        self._deadline = 0.0
        self._began = time.monotonic()
        self._turned = self._began
        self._pace: float | None = None
        self._epoch_random: dict[str, Any] | None = None
        self._signals = Signals(self._wake)
        self._graphs = bool(graphs_below(equipment.training.model))
        self._recurrent = False
        self._seconds = 0.0
        equipment.checkpointing.extra = self._extra

    # ---- the whole ---------------------------------------------------------------------------

    def run(self) -> str:
        """Train; return `finished`, or why the training ended before."""
        it, training = self._it, self._it.training
        with self._signals:
            call("on_start", it.hooks.on_start, training)
            try:
                while training.epoch < it.settings.epochs and not self._ended():
                    if training.phase == "train":
                        self._train()
                    if training.phase == "evaluate" and not self._is_signalled():
                        self._end_epoch()
            except StopNow:
                pass  # the signal is noted
            reason = self._reason()
            if reason != "finished":
                self._it.notices.add("stop", f"stopped by {reason} at step {training.step}")
                self._save_last(reason)
            self._told(lambda: it.checkpointing.written(wait=True))
            call("on_end", it.hooks.on_end, training, reason)
        return reason

    @property
    def signal(self) -> int:
        """The number of the signal that ended the training, 0 for none."""
        return self._signals.number() if self._signals.received else 0

    def _wake(self) -> None:
        """Look up after this step, and let a compilation that it waits for end now."""
        self.stop_at = 0
        self._it.step.close()

    def _ended(self) -> bool:
        return bool(self._reason_now())

    def _reason_now(self) -> str:
        settings, training = self._it.settings, self._it.training
        shared = self._it.shared
        # What one rank alone knows is agreed upon at the end of a window.
        wish = self._wish() if shared is None else shared.agreed
        if wish:
            return wish
        if settings.max_steps is not None and training.step >= settings.max_steps:
            return f"max_steps={settings.max_steps}"
        return ""

    def _wish(self) -> str:
        """Return why this process wants to stop, empty if it does not."""
        settings, training = self._it.settings, self._it.training
        if self._signals.received:
            return self._signals.received
        if training.stopping:
            return training.stopping
        limit = settings.max_seconds
        if limit is not None and time.monotonic() >= self._began + limit:
            return f"max_seconds={limit:g}"
        return ""

    def _is_signalled(self) -> bool:
        if self._it.shared is not None:
            return bool(self._it.shared.agreed)
        return bool(self._signals.received)

    def _reason(self) -> str:
        training = self._it.training
        over = training.epoch >= self._it.settings.epochs and not training.stopping
        return "finished" if over else self._reason_now()

    # ---- steps -------------------------------------------------------------------------------

    def _train(self) -> None:
        """Train on the rest of an epoch; at its end the phase is `evaluate`."""
        it, training = self._it, self._it.training
        if training.position == 0:
            call("on_epoch_start", it.hooks.on_epoch_start, training.epoch, training)
        shared = it.shared
        batches = self._open() if shared is None else None
        it.progress.begin(training.epoch, it.settings.epochs, it.source.length())
        self._signals.abrupt = it.source.abrupt
        began = time.perf_counter()
        self._plan()
        # The first step tells whether the model remembers anything between steps.
        self.stop_at = min(self.stop_at, training.step + 1)
        try:
            if self._windows(shared) if batches is None else self._steps(batches):
                training.phase = "evaluate"
        except Exception as error:
            place = f"epoch {training.epoch}, batch {training.position}"
            error.add_note(f"in step {training.step} of the training ({place})")
            raise
        finally:
            self._signals.waiting = False
            if batches is not None:
                batches.close()
            self._seconds += time.perf_counter() - began

    def _open(self) -> Batches:
        training, source = self._it.training, self._it.source
        if not source.replays:
            return source.epoch(training.epoch, training.position)
        if training.position == 0 or self._epoch_random is None:
            self._epoch_random = random_state()
            return source.epoch(training.epoch, training.position)
        now = random_state()
        set_random_state(self._epoch_random)
        batches = source.epoch(training.epoch, training.position)
        set_random_state(now)
        return batches

    def _steps(self, batches: Batches) -> bool:
        """The hot loop; return whether the epoch was finished."""
        it, training, signals = self._it, self._it.training, self._signals
        step, add, on_step = it.step, it.meter.add, it.hooks.on_step
        assert isinstance(step, TrainStep)
        record = it.monitor.record if it.monitor is not None else None
        single, fetch, clock = it.settings.accumulate == 1, batches.__next__, time.monotonic
        while True:
            signals.waiting = True
            try:
                batch = fetch()
            except StopIteration:
                return True
            finally:
                signals.waiting = False
            paced = training.schedule.per_update
            if paced and (single or step.at_boundary):
                training.schedule.before_update(training.update, training.lr_scale)
            loss = step(batch)
            training.position += 1
            training.step += 1
            if single or step.at_boundary:
                training.update += 1
                if paced:
                    training.schedule.after_update()
            if record is not None:
                record(training.step, {"loss": loss, **step.metrics})
            if self._recurrent:
                detach_state(training.model)
            if on_step:
                self._tell_step(loss)
            look = add(loss, step.metrics)
            if (
                look or training.step >= self.stop_at or clock() >= self._deadline
            ) and not self._look_up(batch):
                return False

    def _windows(self, shared: SharedWindows | None) -> bool:
        """The loop over windows, whose batches the ranks share; return whether the epoch was finished."""
        it, training = self._it, self._it.training
        assert shared is not None
        checkpointing, most = it.checkpointing, it.settings.max_steps
        shared.wish = self._wish
        shared.is_late = lambda: time.monotonic() >= checkpointing.next_time()
        shared.next_save = checkpointing.next_step
        shared.begin(training, most)
        while shared.run(training, most, self._take):
            if it.hooks.on_window:
                call("on_window", it.hooks.on_window, training, shared.report(training))
            look = bool(shared.agreed or shared.saves or shared.joins or shared.asks)
            look |= training.step >= self.stop_at or time.monotonic() >= self._deadline
            if look and not self._look_up(None):
                return False
        return True

    def _take(self, loss: Tensor, metrics: Mapping[str, Tensor], batch: Any) -> None:
        """Take the loss and the metrics of a batch of a window."""
        it = self._it
        if it.monitor is not None:
            it.monitor.record(it.training.step, {"loss": loss, **metrics})
        if it.hooks.on_step:
            self._tell_step(loss)
        if it.meter.add(loss, metrics):
            self._check_losses(batch)

    def _tell_step(self, loss: Tensor) -> None:
        it = self._it
        call("on_step", it.hooks.on_step, it.training, loss)
        if it.training.stopping:
            self.stop_at = 0

    def _look_up(self, batch: Any) -> bool:
        """Look at losses, progress, checkpoints and signals; return whether to continue."""
        it, training = self._it, self._it.training
        self._check_losses(batch)
        it.progress.move(training.position, it.meter.last)
        wishes = self._requests()
        if self._is_stopped(wishes):
            return False
        if self._graphs and not self._recurrent and has_state(training.model):
            self._recurrent = True
            detach_state(training.model)
        self._told(it.checkpointing.written)
        agreed = None if it.shared is None else it.shared.saves
        is_due = it.checkpointing.due() if agreed is None else agreed
        if not self._do(wishes | {"save"} if is_due else wishes):
            return False
        if it.shared is not None and it.shared.joins:
            it.shared.admit(training, it.settings.max_steps, self._packed)
        self._plan()
        return True

    def _requests(self) -> set[str]:
        return set(requests_of(self._it.monitor, self._it.shared))

    def _is_stopped(self, wishes: set[str]) -> bool:
        """Return True if the training ends here, for a request or for another reason."""
        training, shared = self._it.training, self._it.shared
        if "stop" in wishes:
            training.stop("a request on the page of the monitor")
            if shared is not None:
                shared.agreed = training.stopping  # all ranks have read it
        return self._ended()

    def _do(self, wishes: set[str]) -> bool:
        """Do what is requested, a pause last; return False if the training ends in it."""
        if "save" in wishes:
            self._save("step")
        if "evaluate" in wishes:
            self._evaluate_now()
        if "pause" not in wishes:
            return True
        it = self._it
        more = rest(self._requests, self._may_rest, it.training, it.notices)
        return not self._is_stopped(more) and self._do(more)

    def _may_rest(self) -> bool:
        """Return True if a pause may last; several ranks meet for that."""
        shared = self._it.shared
        return not (self._wish() if shared is None else shared.agree(self._wish()))

    def _plan(self) -> None:
        """Decide when to look up again."""
        it = self._it
        step, settings = it.training.step, it.settings
        self._deadline = min(time.monotonic() + _LOOK, it.checkpointing.next_time())
        self.stop_at = min(
            step + settings.flush_every,
            it.checkpointing.next_step(),
            settings.max_steps or math.inf,
        )
        if self._signals.received:  # in between
            self.stop_at = 0

    def _check_losses(self, batch: Any) -> None:
        it = self._it
        behind = it.meter.flush()
        if behind < 0 or not it.settings.nan_guard:
            return
        advice = 'run it again with step="eager" on a CPU to see the step itself' if behind else ""
        error = non_finite(
            it.training,
            it.meter.last,
            behind=behind,
            batch=None if behind else batch,
            advice=advice,
        )
        self._it.notices.add("alert", str(error))
        raise error

    # ---- the end of an epoch -----------------------------------------------------------------

    def _end_epoch(self) -> None:
        it, training = self._it, self._it.training
        self._check_losses(None)
        evaluated = self._evaluate()
        observed, own = flush_graph(training.model), it.meter.means()
        if it.shared is not None:
            observed, own = it.shared.mean_of(observed), it.shared.epoch_means(own)
        means = {**own, **observed, **evaluated}
        if "loss" not in means:
            raise TrainingError(f"the data gave no batches in epoch {training.epoch}")
        for name, value in means.items():
            training.log.record(name, value)
        training.log.flush()
        metrics = EpochMetrics(
            epoch=training.epoch,
            avg_loss=means["loss"],
            scalars=means,
            lr=training.current_lr,
            steps=training.position,
            seconds=self._seconds,
            device_indices=(training.device.index or 0,),
            per_rank=() if it.shared is None else it.shared.shares(),
        )
        self._seconds = 0.0
        self.history.append(metrics)
        training.schedule.after_epoch(training.epoch, training.lr_scale, means)
        call("on_epoch", it.hooks.on_epoch, training, metrics)
        training.ask_rules(means)
        if it.shared is not None:
            training.stopping = it.shared.agree(self._wish())
        self._turn_over(metrics)

    def _turn_over(self, metrics: EpochMetrics) -> None:
        """Go on to the next epoch, tell everybody, and save."""
        it, training = self._it, self._it.training
        for graph in graphs_below(training.model):
            end_epoch(graph)
        training.epoch, training.position, training.phase = training.epoch + 1, 0, "train"
        it.progress.end(metrics, it.settings.epochs, self._left())
        if it.monitor is not None:
            it.monitor.log(metrics.epoch, metrics.seconds, metrics.scalars)
        if it.checkpointing.due_after_epoch():
            self._save("epoch")

    def _left(self) -> float:
        """Return the seconds that the epochs to come will take, going by the last ones."""
        now = time.monotonic()
        took, self._turned = now - self._turned, now
        self._pace = took if self._pace is None else 0.5 * took + 0.5 * self._pace
        training = self._it.training
        epochs = self._it.settings.epochs - training.epoch
        return 0.0 if training.stopping else max(epochs, 0) * self._pace

    def _evaluate(self) -> dict[str, float]:
        it, training = self._it, self._it.training
        if it.evaluation is None or (training.epoch + 1) % it.settings.evaluate_every:
            return {}
        before = random_state()
        try:
            return it.evaluation.run(training.model, self._signals.interruptible)
        except StopNow:
            # The evaluation is done again from its beginning.
            set_random_state(before)
            raise

    def _evaluate_now(self) -> None:
        """Evaluate within an epoch, as requested; the numbers of the training stay as without it."""
        it, training = self._it, self._it.training
        if it.evaluation is None or self._recurrent:
            why = "the training has no evaluation: add .evaluate(DATA)"
            if self._recurrent:
                why = "the model remembers values between two batches, and an evaluation would change them"
            it.notices.add("alert", f"no evaluation on request: {why}")
            return
        before = random_state()
        try:
            with recorded_apart(), observed_apart(training.model):
                found = it.evaluation.run(training.model, self._signals.interruptible)
        finally:
            set_random_state(before)
        report = EvaluationReport(epoch=training.epoch, step=training.step, scalars=found)
        it.notices.add("evaluation", str(report))
        if it.monitor is not None:
            it.monitor.record(training.step, found)
        call("on_evaluation", it.hooks.on_evaluation, training, report)

    # ---- checkpoints -------------------------------------------------------------------------

    def _save(self, reason: str, *, wait: bool = False) -> None:
        checkpointing = self._it.checkpointing
        self._told(lambda: checkpointing.written(wait=True))  # the one before, if it still runs
        self._told(lambda: checkpointing.save(reason, wait=wait))

    def _told(self, written: Callable[[], Saved | None]) -> None:
        """Report a checkpoint that is safe now.

        A failure is reported: a full disk is no reason to lose the training as well.
        """
        it = self._it
        try:
            saved = written()
        except CheckpointError as error:
            it.notices.add("alert", f"no checkpoint: {error}; the training goes on")
            return
        if saved is not None:
            line = f"{saved.path.name} ({it.checkpointing.seconds:.2f}s)"
            if it.monitor is not None:
                it.monitor.event("checkpoint", line)
            call("on_checkpoint", it.hooks.on_checkpoint, it.training, saved.path)

    def _save_last(self, reason: str) -> None:
        it = self._it
        if self._signals.forced:
            it.notices.add(
                "alert",
                "the wait for a batch was given up while it was being made; if the data set draws random "
                "numbers in this process, later batches may differ from those of an uninterrupted run",
            )
        self._told(lambda: it.checkpointing.written(wait=True))
        last = it.checkpointing.last
        if last is None or last.step != it.training.step or it.training.phase != "train":
            self._save(reason, wait=True)

    def _extra(self) -> dict[str, Any]:
        """Return the content of a checkpoint besides the objects with their own state."""
        training, source = self._it.training, self._it.source
        middle = source.replays and training.position > 0 and training.phase == "train"
        return {
            "meter": self._it.meter.state_dict(),
            "data": source.identity(),
            "epoch_random": self._epoch_random if middle else None,
        }

    def _packed(self) -> Tensor:
        """Return all that a rank needs that joins now, as one tensor."""
        assert self._it.shared is not None
        told = {
            "history": [asdict(each) for each in self.history],
            "shares": [asdict(each) for each in self._it.shared.shares()],
        }
        return self._it.checkpointing.packed({"told": json.dumps(told)})

    def enter(self, packed: Tensor) -> None:
        """Continue as the ranks do that packed their state, and count nothing twice.

        Raises:
            CheckpointError: this rank has another model or another optimizer.
        """
        self._it.checkpointing.unpack(packed, self._take_over)

    def _take_over(self, extra: Mapping[str, Any]) -> None:
        told, shared = json.loads(extra["told"]), self._it.shared
        assert shared is not None
        self.restore(extra)
        self.history = [metrics_of(each) for each in told["history"]]
        shared.before = tuple(RankShare(**each) for each in told["shares"])
        if not shared.tells_all:
            self._it.meter.means()  # begins again: the batches in it are those of another rank

    def restore(self, extra: Mapping[str, Any]) -> None:
        """Continue with what `_extra` returned.

        Raises:
            Exception: it is something else; how far it was taken over is undefined.
        """
        self._it.meter.load_state_dict(extra["meter"])
        numbers = extra["epoch_random"]
        if numbers is not None:
            now = random_state()
            try:
                set_random_state(numbers)  # later it would fail in the middle of an epoch
            finally:
                set_random_state(now)
        self._epoch_random = numbers
