"""The training step of policies Cadence and Async: ranks train alone for a window, then share their weights.

Example: `.accumulate(2)`, an epoch of 1,000 batches, ranks of 10 and 25 ms for an update of two batches. A
*unit* is one update, so the epoch has 500 units.

    window 0   one unit each, by count: no speed is known yet
    window 1   100 ms: rank 0 makes 10 updates from its stretch of the epoch, rank 1 makes 4 from its own
    commit     weights move by the mean of both ways, weighed by updates; the schedule moves by 14
    last       at the end of the epoch, optimizer states are averaged too, and all ranks are equal

A stop or a checkpoint is a wish in the row of a rank, so all ranks decide on it in the same window; the
optimizer states are averaged in it.

Policy Async trains window 2 while window 1 is averaged, from the committed weights plus what this rank did in
window 1 (`weights.py`). A wish in the rows of window 1 lets window 2 end as above, with nothing under way.
"""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

import torch
from torch import Tensor

from flodl.checkpoint.tensors import as_bytes, on_host
from flodl.distributed.control import JOIN, SAVE, STOP, ApplyPolicy, ControlRow, WindowPlan
from flodl.distributed.divergence import ConvergenceGuard
from flodl.distributed.el_che import ElChe
from flodl.distributed.planner import WindowPlanner
from flodl.distributed.team.exact_runner import Averaged, ExactRunner
from flodl.distributed.team.window_runner import WindowRunner, WindowWork
from flodl.distributed.unit_ledger import count_units, take_units
from flodl.errors import TrainingError
from flodl.graph.state import has_state
from flodl.step.ema import Ema
from flodl.step.step import TrainStep
from flodl.train.cadence import optimizer_means
from flodl.train.cadence.ahead import AheadUnits
from flodl.train.cadence.optimizer_means import layout_of
from flodl.train.cadence.rank_buffers import RankBuffers
from flodl.train.cadence.rank_window import RankWindow, report_of_window
from flodl.train.cadence.weights import CommittedWeights, Outer, norm_of
from flodl.train.nonfinite import weights_not_finite
from flodl.train.protocols import Take
from flodl.train.settings import Settings
from flodl.train.state import RankShare, WindowReport
from flodl.train.sync.meetings import agree, mean_of
from flodl.train.sync.units import Units, seed_generators
from flodl.train.training import Training

_CHECK_EVERY: Final = 50  # windows between two comparisons of all weights
_FIRST: Final = 2  # windows after which a model that remembers has shown it
_FRUITLESS: Final = 3  # windows without a unit, one after the other, after which the training ends


@final
class CadenceStep:
    """Windows in which this rank trains for itself; each ends in the same weights on every rank.

    Args:
        local: the step of this rank, without averaged weights.
        runner: the windows of the team.
        units: the batches by place.
        settings: those of the training.
        policy: Cadence or Async.
        seed: seed of the generators of every batch.
        el_che: the choice of the windows.
        guard: the convergence guard, if there is one.
        outer: the optimizer of averages, if there is one.
        ema: averaged weights, if they are kept.
        report: takes notices.

    Attributes:
        wish: returns why this rank wants to stop, empty if it does not.
        is_late: returns True if this rank wants a checkpoint now.
        next_save: returns the step at which a checkpoint is due.
        agreed: why all ranks stop after the last window, empty if they do not.
        saves: whether all ranks save after the last window.
        joins: whether ranks ask to join, as all know after the last window.
        asks: whether all know of requests, and nothing is under way.
        tells_all: False, because a rank is told the losses of its own batches alone.
        before: the parts of the ranks in an epoch that `begin` continues.
        take_requests: returns the requests that all ranks know of.
    """

    def __init__(  # noqa: PLR0913  # each is one decision of the builder
        self,
        local: TrainStep,
        runner: ExactRunner,
        units: Units,
        settings: Settings,
        *,
        policy: ApplyPolicy,
        seed: int,
        el_che: ElChe,
        guard: ConvergenceGuard | None,
        outer: Outer | None,
        ema: Ema | None,
        report: Callable[[str], object],
    ) -> None:
        self.wish: Callable[[], str] = str
        self.is_late: Callable[[], bool] = bool
        self.next_save: Callable[[], float] = lambda: float("inf")
        self.agreed = ""
        self.saves: bool | None = False
        self.joins = self.asks = self.tells_all = False
        self.before: tuple[RankShare, ...] = ()
        self.take_requests = runner.take_requests
        self._local = local
        self._recipe = local.recipe
        self._runner = runner
        self._units = units
        self._settings = settings
        self._policy = policy
        self._seed = seed
        self._el_che = el_che
        self._guard = guard
        self._ema = ema
        self._report = report
        self._weights = CommittedWeights(self._recipe.trained(), outer)
        self._buffers = RankBuffers(self._recipe.model)
        self._resumed: Mapping[str, Any] = {}
        self._windows = self._fruitless = 0
        self._loss_sum, self._batches = 0.0, 0  # of the epoch, on all ranks, before a resume too
        self._counts: dict[int, int] = {}
        self._busy: dict[int, float] = {}
        self._epoch: _Epoch | None = None
        self._last: Averaged | None = None
        self._began = time.perf_counter()
        self._seconds = 0.0
        report(self.decision)

    # ---- what the loop calls -------------------------------------------------------------------

    @property
    def decision(self) -> str:
        """How steps run, in one line."""
        ranks = self._runner.world_size
        return (
            f"{self._local.decision}, on each of {ranks} ranks; weights averaged by {self._policy}"
        )

    @property
    def at_boundary(self) -> bool:
        """Whether no update is unfinished: a window ends with updates."""
        return True

    def begin(self, training: Training, most: int | None) -> None:
        """Start an epoch, or continue one.

        Args:
            training: the position.
            most: steps after which the training ends, in total.

        Raises:
            TrainingError: the epoch was begun with other units.
        """
        seed_generators(self._seed, training.epoch)
        self._units.begin(training.epoch)
        self._weights.begin()  # a checkpoint may have changed them
        self._buffers.begin()
        self._loss_sum, self._batches = self._resumed.get("epoch", (0.0, 0))
        if not training.position:
            self._loss_sum, self._batches = 0.0, 0
        self._counts = {each.rank: each.batches for each in self.before}
        self._busy = {each.rank: each.busy for each in self.before}
        self.before = ()
        self._began = time.perf_counter()
        batches = self._units.ready(0, sys.maxsize)
        if most is not None:
            batches = min(batches, training.position + most - training.step)
        self._epoch = _Epoch(self, training, batches)
        self._resumed = {}
        needed = self._epoch.runner.planner.ledger.left
        if training.epoch == 0 and 0 < needed < len(self._runner.members):
            self._report(
                f"an epoch has {needed} updates for {len(self._runner.members)} ranks: some never train"
            )

    def run(self, training: Training, most: int | None, take: Take) -> bool:
        """Commit a window, and train what that needs; return False if the epoch is over.

        Raises:
            TrainingError: the model remembers something between two batches.
        """
        del training, most
        assert self._epoch is not None
        self._epoch.take = take
        done = self._epoch.runner.window()
        if done is None:
            return False
        self._windows += 1
        now = time.perf_counter()
        self._last, self._seconds, self._began = done, now - self._began, now
        return True

    def report(self, training: Training) -> WindowReport:
        """Return what the ranks did in the last window."""
        assert self._epoch is not None
        assert self._last is not None
        return self._epoch.report(self._last.rows, training, self._seconds)

    def admit(self, training: Training, most: int | None, pack: Callable[[], Tensor]) -> None:
        """Let ranks join that ask for it; all of them share the rest of the epoch."""
        self._runner.admit(pack)
        self.before = self.shares()
        self._resumed = self.state_dict()["cadence"]
        self.begin(training, most)
        self._windows = self._fruitless = 0  # as on the ranks that join

    def agree(self, wish: str) -> str:
        """Return why all ranks stop, if one of them wishes to; empty if none does."""
        self.agreed = agree(self._runner, wish)
        return self.agreed

    def mean_of(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the means over the ranks of values that each rank has of its own."""
        return mean_of(self._runner, values)

    def epoch_means(self, own: Mapping[str, float]) -> dict[str, float]:
        """Return the means over all batches of the epoch; those of dead ranks count for the loss alone."""
        # Where a resume found the epoch at its end, every rank has the means of the checkpoint.
        weight = self._counts.get(self._runner.rank, 0) if self._counts else 1
        found = mean_of(self._runner, own, weight)
        if self._batches:
            found["loss"] = self._loss_sum / self._batches
        return found

    def shares(self) -> tuple[RankShare, ...]:
        """Return what each rank did in this epoch."""
        return tuple(
            RankShare(rank=rank, batches=self._counts.get(rank, 0), busy=seconds)
            for rank, seconds in sorted(self._busy.items())
        )

    def close(self) -> None:
        """End background work."""
        self._local.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as `TrainStep` does, and which units of the epoch are in the weights."""
        state = self._local.state_dict()
        if self._ema is not None:
            state["ema"] = self._ema.state_dict()
        if self._epoch is not None:
            planner = self._epoch.runner.planner
            state["cadence"] = {
                "planner": planner.state_dict(),
                "offset": self._epoch.offset,
                "stop": self._epoch.stop,
                "accumulate": self._settings.accumulate,
                "complete": planner.ledger.is_complete,
                "outer": self._weights.state_dict(),
                "epoch": [self._loss_sum, self._batches],
            }
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, of one device too.

        Raises:
            ValueError: an update is unfinished in it.
        """
        if state.get("position"):
            raise ValueError(
                "an update is unfinished in this checkpoint, and policy cadence starts with whole ones; "
                "continue from the end of an epoch, or with the policy that wrote it"
            )
        self._local.load_state_dict({key: each for key, each in state.items() if key != "cadence"})
        if self._ema is not None and "ema" in state:
            self._ema.load_state_dict(dict(state["ema"]))
        self._resumed = state.get("cadence", {})
        if self._resumed:
            self._weights.load_state_dict(self._resumed["outer"])
            planner = self._resumed["planner"]
            self._el_che.load_state_dict(planner["el_che"])
            if self._guard is not None and planner["guard"] is not None:
                self._guard.load_state_dict(planner["guard"])


@final
class _Epoch:
    """The windows of one epoch.

    Attributes:
        runner: the windows.
        offset: first batch of the first unit.
        stop: batch after the last unit.
        take: is told the loss and the metrics of each batch of this rank.
    """

    def __init__(self, step: CadenceStep, training: Training, batches: int) -> None:
        self.take: Take = _ignore
        self._step = step
        self._training = training
        self.offset, self.stop = training.position, max(batches, training.position)
        size = step._settings.accumulate
        resumed = step._resumed
        continued = bool(resumed) and not resumed["complete"]
        if continued:
            if resumed["accumulate"] != size:
                raise TrainingError(
                    f"this epoch was begun with accumulate={resumed['accumulate']}, so its batches cannot be "
                    f"divided by {size}; continue with the former number, or from the end of an epoch"
                )
            self.offset, self.stop = resumed["offset"], resumed["stop"]
        planner = WindowPlanner(
            -(-(self.stop - self.offset) // size),
            step._runner.members,
            policy=step._policy,
            el_che=step._el_che,
            guard=step._guard,
        )
        if continued:
            planner.load_state_dict(resumed["planner"])
        self.runner = WindowRunner(
            step._runner,
            planner,
            WindowWork(
                begin=self._begin,
                train=self._train,
                is_cut=lambda: bool(step.wish()),
                report=self._row,
                note=self._note,
                may_overlap=self._may_overlap,
                hand_in=self._hand_in,
                contribution=self._contribution,
                commit=self._commit,
            ),
        )
        self._plan: WindowPlan | None = None
        self._at = (training.position, training.step, training.update)  # of what is committed
        self._done, self._trained, self._loss = 0, 0, 0.0
        self._shares: dict[int, int] = {}  # batches of each rank in the last window
        self._made = RankWindow()  # of the last window that this rank trained
        self._given = RankWindow()  # of the window that is added up
        self._under_way = False  # whether this rank trains on meanwhile
        self._has_wishes = False  # whether a rank of the last window had one
        self._text = ""

    # ---- one window ----------------------------------------------------------------------------

    def _begin(self, plan: WindowPlan) -> None:
        training, own = self._training, self._given if self._under_way else RankWindow()
        self._plan = plan
        training.position, training.step = self._at[0] + own.batches, self._at[1] + own.batches
        self._done, self._trained, self._loss = 0, 0, 0.0
        self._text = ""
        units = self._step._units
        if isinstance(units, AheadUnits):
            stretch = self.runner.planner.stretch(self._step._runner.rank)
            rest = take_units(stretch, own.units)[1]
            units.expect([self._range(start, stop) for start, stop in rest])

    def _range(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first batch of some units, and the one after the last."""
        size = self._step._settings.accumulate
        return self.offset + start * size, min(self.offset + stop * size, self.stop)

    def _train(self, unit: int) -> None:
        """Make one update, from the batches of a unit."""
        step, training = self._step, self._training
        self._move_clock()
        if training.schedule.per_update:
            training.schedule.before_update(training.update, training.lr_scale)
        losses: list[Tensor] = []
        for position in self._batches(unit):
            seed_generators(step._seed, training.epoch, position)
            batch = step._units.read(position)
            try:
                loss = step._local(batch)
            except Exception as error:
                error.add_note(f"in batch {position} of epoch {training.epoch}")
                raise
            training.position += 1
            training.step += 1
            losses.append(loss)
            self.take(loss, step._local.metrics, batch)
        step._local.flush()  # the last unit of an epoch may have fewer batches
        # Reading a number waits for the device, so that a window of time measures its work.
        self._loss += sum(each.item() for each in losses)
        self._trained += len(losses)
        self._done += 1
        if step._windows < _FIRST and has_state(step._recipe.model):
            raise TrainingError(
                "the model remembers values between two batches (a recurrent graph), so its batches cannot "
                "be divided over devices; train it on one device"
            )

    def _batches(self, unit: int) -> range:
        return range(*self._range(unit, unit + 1))

    def _move_clock(self) -> None:
        """Set the number of updates to what all ranks have made by now, at the pace of this one."""
        plan, planner = self._plan, self.runner.planner
        assert plan is not None
        own = plan.counts[plan.members.index(self._step._runner.rank)]
        whole = sum(plan.counts)
        made = min(self._done * whole // max(own, 1), whole - 1)
        if self._under_way and planner.plan is not None:
            made += sum(planner.plan.counts)
        self._training.update = self._at[2] + min(made, planner.ledger.left - 1)

    def _row(self, row: ControlRow) -> ControlRow:
        step = self._step
        self._text = step.wish()
        wish = (STOP if self._text else 0) | (SAVE if step.is_late() else 0)
        done, deltas = row.done, step._weights.deltas() if row.done else []
        if math.isnan(norm_of(deltas)):
            if step._settings.nan_guard:
                rank = step._runner.rank
                raise weights_not_finite(self._training, step._recipe.model, rank=rank)
            done, deltas = 0, []
            self._leave_out()
        self._made = RankWindow(
            deltas=deltas,
            buffers=step._buffers.moves(copied=step._policy is ApplyPolicy.ASYNC),
            units=done,
            batches=self._trained if done else 0,
        )
        loss = self._loss / self._trained if done and self._trained else None
        return replace(
            row,
            done=done,
            loss=loss,
            drift=step._weights.drift,
            wish=wish,
            crc=self._fingerprint(),
        )

    def _leave_out(self) -> None:
        """Let this rank add nothing: its weights are not finite."""
        step, training = self._step, self._training
        step._weights.undo()
        step._buffers.undo()
        optimizer_means.forget(step._recipe.optimizer)
        step._report(
            f"rank {step._runner.rank}: weights were not finite after update {training.update}; it takes "
            "those of the other ranks, and its batches are trained again"
        )

    def _fingerprint(self) -> int:
        step = self._step
        place = f"{self._training.epoch}/{self.offset}/{self.stop}/{step._settings.accumulate}"
        crc = zlib.crc32(place.encode())
        # Unlike devices round differently what follows from the same sums.
        if step._windows % _CHECK_EVERY == 0 and step._runner.on_cpu:
            for each in step._weights.tensors():
                crc = zlib.crc32(as_bytes(on_host(each)), crc)
        return crc

    # ---- what all ranks add up -------------------------------------------------------------------

    def _may_overlap(self) -> bool:
        """Return True unless a stop or a checkpoint is near, for which nothing may be under way."""
        plan, step = self.runner.planner.plan, self._step
        assert plan is not None
        batches = sum(plan.counts) * step._settings.accumulate
        return not self._has_wishes and self._at[1] + batches < step.next_save()

    def _hand_in(self, is_overlapped: bool) -> None:
        """Let the last window be the one that is added up, and train on from it if the next one overlaps."""
        step = self._step
        self._given, self._under_way = self._made, is_overlapped
        if is_overlapped:
            assert self._given.buffers is not None
            step._weights.train_on(self._given.deltas)
            step._buffers.train_on(self._given.buffers, self._given.batches)

    def _closes(self, rows: Sequence[ControlRow]) -> bool:
        """Return True if optimizer states are averaged in this window."""
        planner = self.runner.planner
        is_last = sum(row.done for row in rows) == planner.ledger.left
        step = self._at[1] + sum(self._batches_of(rows).values())
        return is_last or any(row.wish for row in rows) or step >= self._step.next_save()

    def _note(self, rows: Sequence[ControlRow]) -> str | None:
        if not self._closes(rows):
            return None
        layout = layout_of(self._step._recipe.optimizer)
        return json.dumps({"stop": self._text, "optimizer": layout})

    def _contribution(self, rows: Sequence[ControlRow], notes: Mapping[int, str]) -> list[Tensor]:
        step, given = self._step, self._given
        rank = step._runner.rank
        found = step._weights.zeros()
        if given.deltas:
            found = list(torch._foreach_mul(list(given.deltas), given.units))
        found += step._buffers.contributions(self._batches_of(rows), rank, given.buffers)
        scaler = self._shared_scaler()
        if scaler is not None:
            scales = torch.zeros(len(rows), dtype=torch.float32)
            scales[[row.rank for row in rows].index(rank)] = scaler.get_scale()
            found.append(scales)
        if notes:
            found += optimizer_means.contributions(step._recipe.optimizer, _layouts(notes))
        return found

    def _shared_scaler(self) -> torch.amp.GradScaler | None:
        """Return the scaler, where ranks take the least scale; not while they train on, and change it."""
        return None if self._under_way else self._step._local.scaler

    def _commit(self, done: Averaged) -> None:
        step = self._step
        tensors: Iterator[Tensor] = iter(done.tensors)
        trained = [row for row in done.rows if row.done]
        count = len(step._weights.tensors())
        updates = sum(row.done for row in trained)
        step._weights.commit([next(tensors) for _ in range(count)], updates, self._given.deltas)
        buffers = len(step._buffers._committed)
        step._buffers.commit([next(tensors) for _ in range(buffers)])
        scaler = self._shared_scaler()
        if scaler is not None:
            lowest = float(next(tensors).min())
            if scaler.is_enabled():
                scaler.update(lowest)
        if done.notes:
            optimizer_means.commit(step._recipe.optimizer, _layouts(done.notes), list(tensors))
        if step._ema is not None and trained:
            step._ema.update(updates / len(trained))
        self._count(done.rows, updates)
        self._decide(done)

    def _count(self, rows: Sequence[ControlRow], updates: int) -> None:
        """Move the clocks of the training by what all ranks did."""
        step, training = self._step, self._training
        batches = self._shares = self._batches_of(rows)
        total = sum(batches.values())
        position, steps, before = self._at
        self._at = (position + total, steps + total, before + updates)
        training.position, training.step, training.update = self._at
        if training.schedule.per_update:
            for _ in range(updates):
                training.schedule.after_update()
        for row in rows:
            own = batches.get(row.rank, 0)
            step._loss_sum += own * (row.loss or 0.0)
            step._batches += own
            step._counts[row.rank] = step._counts.get(row.rank, 0) + own
            step._busy[row.rank] = step._busy.get(row.rank, 0.0) + row.busy
        step._fruitless = 0 if total else step._fruitless + 1
        if step._fruitless == _FRUITLESS:
            raise TrainingError(
                f"no rank had finite weights in {_FRUITLESS} windows one after the other; lower the "
                "learning rate, or look at the first bad loss with .nan_guard(True)"
            )

    def report(
        self, rows: Sequence[ControlRow], training: Training, seconds: float
    ) -> WindowReport:
        """Return what the ranks did in the window of some rows."""
        anchor = self._step._el_che.anchor
        return report_of_window(
            rows, self._shares, step=training.step, seconds=seconds, anchor=anchor
        )

    def _decide(self, done: Averaged) -> None:
        """Take the wishes of all ranks for decided; while a window is under way, note that there are some."""
        step = self._step
        self._has_wishes = self._under_way and any(row.wish for row in done.rows)
        if self._under_way:
            self._under_way = step.saves = step.joins = step.asks = False
            step.agreed = ""
            return
        told = [json.loads(text)["stop"] for _, text in sorted(done.notes.items()) if text]
        step.agreed = next((text for text in told if text), "")
        step.joins = any(row.wish & JOIN for row in done.rows)
        step.asks = step._runner.asks
        late = any(row.wish & SAVE for row in done.rows)
        step.saves = late or self._training.step >= step.next_save()

    def _batches_of(self, rows: Sequence[ControlRow]) -> dict[int, int]:
        """Return the batches of each rank in the window that is added up."""
        plan = self.runner.planner.plan
        assert plan is not None
        units = dict(zip(plan.members, plan.units, strict=True))
        size = self._step._settings.accumulate
        last = -(-(self.stop - self.offset) // size) - 1
        short = size - len(self._batches(last))
        found = {}
        for row in rows:
            taken, _ = take_units(units[row.rank], row.done)
            has_last = any(start <= last < stop for start, stop in taken)
            found[row.rank] = count_units(taken) * size - (short if has_last else 0)
        return found


def _ignore(loss: Tensor, metrics: Mapping[str, Tensor], batch: Any) -> None:
    del loss, metrics, batch


def _layouts(notes: Mapping[int, str]) -> list[optimizer_means.Layout]:
    return [json.loads(text)["optimizer"] for _, text in sorted(notes.items()) if text]
