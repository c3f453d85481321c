"""The share of one rank in a loop of your own, by policy Sync: `session.batches`, and `session.step`.

Example: an update of four batches on two ranks. The loop is the same on both.

    rank 0   batches() gives 0   backward   step() -> False
    rank 0   batches() gives 1   backward   step() waits for rank 1, sums, updates -> True
    rank 1   batches() gives 2   backward   step() -> False
    rank 1   batches() gives 3   backward   step() -> True: the same weights as rank 0

The windows of policy Sync call a train function, and here the loop of the user calls. So the windows are
in a thread that takes turns with the loop: it rests wherever the loop has something to do.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final, NoReturn, final

import torch
from torch import Tensor

from flodl.distributed.team.exact_runner import ExactRunner, ExactWork, Sums
from flodl.distributed.team.failures import DesyncError
from flodl.distributed.team.joining import join, leave
from flodl.distributed.team.lone_summer import ClosedMixin
from flodl.distributed.team.place import Place
from flodl.distributed.team.team import Team
from flodl.errors import TrainingError
from flodl.step.recipe import Recipe
from flodl.train.own_loop.turns import Ended, Turns
from flodl.train.protocols import Source
from flodl.train.settings import Exactness, Settings
from flodl.train.sync import joined
from flodl.train.sync.meetings import mean_of, meet
from flodl.train.sync.processes import require_equal_models
from flodl.train.sync.sharing import Sharing, threads, threads_for
from flodl.train.sync.window_step import WindowStep
from flodl.train.training import Training

_WHOLE: Final = object()  # a window is over
_NEXT: Final = object()  # this rank trains another batch of the window


@final
@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that the loop trains now."""

    batch: Any


@final
class _Where(Enum):
    """Where the loop of the user is."""

    BETWEEN_EPOCHS = auto()
    BETWEEN_BATCHES = auto()
    IN_BATCH = auto()
    CLOSED = auto()


@final
class _RestingSummer(ClosedMixin):
    """The ranks as a window sees them: before each batch, the loop of the user has the turn."""

    def __init__(self, runner: ExactRunner) -> None:
        self.rank = runner.rank
        self.members = runner.members
        self.world_size = runner.world_size
        self.on_cpu = runner.on_cpu
        self.rest: Callable[[Any], Any] = _nothing
        self._runner = runner

    def add_up(self, count: int, work: ExactWork) -> Sums:
        """Train the units of a window, each on one rank, and return the sums over all of them."""

        def train(unit: int) -> float:
            # Here, and not in the batch: the loop draws no number of a batch in between.
            self.rest(_NEXT)
            return work.train(unit)

        sums = self._runner.add_up(count, replace(work, train=train))
        self.members = self._runner.members
        return sums


@final
class RankLoop:
    """One rank of a loop of your own; `join_loop` makes it.

    Args:
        team: the ranks, which this one has joined.
        place: where this process is among them.
        recipe: model, optimizer, and the settings of an update.
        source: the batches, the same ones on all ranks.
        exact: how equal to one process the numbers are.
        seed: the seed of the random numbers of each batch; `None` lets the first rank choose.

    Attributes:
        training: the position, and the schedule.
        rank: the number of this process among those that train.
        world_size: the number of processes that began.
    """

    def __init__(
        self,
        team: Team,
        place: Place,
        recipe: Recipe,
        source: Source,
        *,
        exact: Exactness,
        seed: int | None,
    ) -> None:
        device = recipe.device()
        self.training = Training(recipe.model, recipe.optimizer, device)
        self.rank = team.rank
        self.world_size = len(team.members)
        self._team = team
        self._place = place
        self._runner = ExactRunner(team)
        told = {"device": device.type, "seed": secrets.randbits(31) if seed is None else seed}
        notes = [
            json.loads(each) for _, each in sorted(meet(self._runner, json.dumps(told)).items())
        ]
        self._runner.on_cpu = all(each["device"] == "cpu" for each in notes)
        _require_equal(self._runner, recipe.model)
        self._summer = _RestingSummer(self._runner)
        self._step: WindowStep = Sharing(
            summer=self._summer, exact=exact, seed=notes[0]["seed"]
        ).step(
            replace(recipe, train_fn=self._hand_out),
            source,
            device,
            Settings(accumulate=recipe.accumulate, step="eager", fused=False),
            _nothing,
        )
        self._held = contextlib.ExitStack()
        self._held.enter_context(threads(threads_for(exact)))
        self._where = _Where.BETWEEN_EPOCHS
        self._turns: Turns | None = None
        self._loss: Tensor | None = None
        self._process = os.getpid()
        atexit.register(self._end_with_process)

    # ---- the loop of the user ----------------------------------------------------------------

    def batches(self, epoch: int, start: int) -> Iterator[Any]:
        """Return the batches of this rank, window by window.

        Raises:
            TrainingError: the last batch had no step, or another loop is not through.
        """
        self.require_between_epochs(f"the batches of epoch {epoch} begin")
        self.training.epoch, self.training.position = epoch, start
        self._turns = Turns(self._windows)
        self._where = _Where.BETWEEN_BATCHES
        while True:
            if self._where is _Where.IN_BATCH:
                raise TrainingError(
                    "the loop wants another batch, and did not call `session.step()` for the last one; an "
                    "update has exactly `accumulate` batches over all ranks, so each needs its step, also "
                    "one without a backward"
                )
            if self._where is not _Where.BETWEEN_BATCHES:
                raise TrainingError(_CLOSED)
            told = self._go_on()
            if isinstance(told, Ended):
                return
            if isinstance(told, _Batch):
                self._where = _Where.IN_BATCH
                yield told.batch

    def note(self, loss: Tensor) -> None:
        """Take the loss of the running batch, for the numbers of the window."""
        self._loss = loss.detach()

    def step(self) -> bool:
        """End a batch; with the last one of this rank in an update, wait for the others and update.

        Returns True if the weights were updated.

        Raises:
            TrainingError: there is no batch to end.
        """
        if self._where is not _Where.IN_BATCH:
            raise TrainingError(
                "`step()` ends a batch of `session.batches(epoch)`, and there is none; over several ranks "
                "the loop takes its batches from there, and calls `step()` once for each"
            )
        before = self.training.update
        loss, self._loss = self._loss, None
        self._where = _Where.BETWEEN_BATCHES
        self._go_on(torch.zeros((), device=self.training.device) if loss is None else loss)
        return self.training.update > before

    def means(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return means over the ranks, weighed by their batches in the last epoch.

        Raises:
            TrainingError: the loop is not through with its batches.
        """
        self.require_between_epochs("an epoch ends")
        counts = self._step.counts
        weight = float(counts.get(self.rank, 0)) if any(counts.values()) else 1.0
        try:
            return mean_of(self._runner, values, weight)
        except BaseException as error:
            self._leave_alone(error)

    def require_between_epochs(self, wish: str) -> None:
        """Refuse what ranks can do only where all of them are at the same place.

        Raises:
            TrainingError: the loop is in the middle of an epoch, or this rank has left the others.
        """
        if self._where is _Where.CLOSED:
            raise TrainingError(_CLOSED)
        if self._where is not _Where.BETWEEN_EPOCHS:
            raise TrainingError(
                f"{wish} before the loop is through with the batches of epoch {self.training.epoch}. In "
                "between, the ranks are at different batches, so this comes after the loop over "
                "`session.batches`, and no rank leaves that loop early (`break`); for a limit of steps, use "
                "`Trainer.builder(...)` with `.max_steps(n)`"
            )

    @property
    def is_first(self) -> bool:
        """Whether this is the first rank that is alive, which writes for all."""
        return self._runner.members[0] == self.rank

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what an unfinished update has gathered, as a session on one device has it, and more."""
        state = self._step.state_dict()
        kept = {name: state[name] for name in ("exact", "blocks", "present") if name in state}
        pending = {"pending": state["position"], "gradients": state.get("gradients", [])}
        return {**pending, "over_ranks": kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue; the state may be that of a session on one device.

        Raises:
            ValueError: an unfinished update was gathered in another order.
        """
        gathered = {"position": state["pending"], "gradients": state["gradients"]}
        self._step.load_state_dict({**gathered, **state.get("over_ranks", {})})
        self.training.update = state["training_step"]
        self.training.lr_scale = state["lr_scale"]

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the ranks together with all others; a process that ends does so too."""
        if self._where is _Where.CLOSED:
            return
        self.require_between_epochs("the session is closed")
        try:
            self._runner.part()
            leave(self._team, self._place)
        except BaseException as error:
            self._leave_alone(error)
        else:
            self._closed()

    def _end_with_process(self) -> None:
        """Leave together with the others, or tell them why this rank cannot."""
        if os.getpid() != self._process:
            return  # a copy of the process that joined
        error = vars(sys).get("last_value")
        if error is None and self._where is not _Where.BETWEEN_EPOCHS:
            error = TrainingError(f"its script ended in the middle of epoch {self.training.epoch}")
        if error is None:
            self.close()
            return
        sys.stderr.flush()
        with contextlib.suppress(BaseException):  # the process ends with the error of the script
            self._leave_alone(error)

    def _leave_alone(self, error: BaseException) -> NoReturn:
        """Tell the others, and raise what ends this rank."""
        self._closed()
        # The same words and statuses as those of a training that a builder makes.
        ended = joined._told(self._team, self._place, error)
        if ended is error:
            raise error
        raise ended from None

    def _closed(self) -> None:
        self._where = _Where.CLOSED
        atexit.unregister(self._end_with_process)
        self._held.close()

    # ---- the windows, in their thread --------------------------------------------------------

    def _windows(self, tell: Callable[[Any], Any]) -> None:
        self._summer.rest = tell
        training = self.training
        if training.device.type == "cuda":
            torch.cuda.set_device(training.device)  # each thread has one of its own
        self._step.begin(training, None)
        if training.schedule.per_update and not self._step.at_boundary:
            # A session on one device sets the rate where an update ends, so its file has the former one.
            training.schedule.before_update(training.update, training.lr_scale)
        while self._step.run(training, None, _nothing):
            tell(_WHOLE)

    def _hand_out(self, model: Any, batch: Any) -> Tensor:
        """Be the train function of a window: the loop trains the batch, and its gradients are there then."""
        del model
        loss: Tensor = self._summer.rest(_Batch(batch))
        # The window calls backward, which the loop has done: this loss leads to no weight.
        return loss.requires_grad_()

    def _go_on(self, answer: Any = None) -> Any:
        """Let the window go on until the loop has something to do."""
        assert self._turns is not None
        if self._turns.is_running:
            raise TrainingError(
                "the last wait for the other ranks was interrupted; end this process"
            )
        told = self._turns.take(answer)
        if isinstance(told, Ended):
            self._turns = None
            if told.error is not None:
                self._leave_alone(told.error)
            self._where = _Where.BETWEEN_EPOCHS
        return told


def join_loop(
    place: Place,
    recipe: Recipe,
    source: Source,
    *,
    exact: Exactness,
    seed: int | None,
    team: Mapping[str, Any],
) -> RankLoop:
    """Join the ranks that a launcher started, for a loop of your own.

    Args:
        place: where this process is among them.
        recipe: model, optimizer, and the settings of an update.
        source: the batches, the same ones on all ranks.
        exact: how equal to one process the numbers are.
        seed: the seed of the random numbers of each batch; `None` lets the first rank choose.
        team: patience, and the least number of ranks.

    Raises:
        TeamError: a setting is impossible, or the store does not answer.
        TrainingError: the ranks made different models, or one that cannot be divided.
    """
    joined_team = join(place, str(recipe.device()), **team)
    try:
        return RankLoop(joined_team, place, recipe, source, exact=exact, seed=seed)
    except BaseException as error:
        ended = joined._told(joined_team, place, error)
        if ended is error:
            raise
        raise ended from None


_CLOSED: Final = (
    "the session is closed: its rank has left the others; make another one with `Trainer.setup`"
)


def _nothing(*values: Any) -> None:
    del values


def _require_equal(runner: ExactRunner, model: torch.nn.Module) -> None:
    try:
        require_equal_models(runner, model)
    except DesyncError as error:
        raise TrainingError(
            f"rank {error.ranks[0]} made another model than the first rank: names, shapes or first values "
            "differ. Call `torch.manual_seed(...)` before you make the model, or load the same weights "
            "everywhere"
        ) from None
