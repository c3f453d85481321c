"""The training step of policy Sync: the units of an update, divided over ranks, give one set of gradients.

Example: `.accumulate(4)` on two ranks, of which the second is slower.

    rank 0   units 0, 1, 2: seed the generators from (seed, epoch, unit), read, forward, backward
    rank 1   unit 3
    both     sum of the gradients; losses, metrics and buffers of all four units, in unit order
    both     clip, update, average: the same on each rank, because all start from the same numbers

An update that an epoch leaves unfinished continues in the next one, as on one device.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import torch
from torch import Tensor

from flodl.checkpoint.tensors import as_bytes, on_host
from flodl.distributed.team.exact_runner import ExactWork, Holdings, Sums, UnitSummer
from flodl.errors import TrainingError
from flodl.graph.state import has_state
from flodl.step.eager import EagerStep
from flodl.step.fusing import fuse
from flodl.step.recipe import Recipe
from flodl.step.step import require_consecutive
from flodl.train.protocols import Take
from flodl.train.scalars import record_scalar, recorded_apart
from flodl.train.settings import Exactness
from flodl.train.state import RankShare, WindowReport
from flodl.train.sync.gradient_sums import Block, GradientSums, units_by_rank
from flodl.train.sync.meetings import agree, mean_of
from flodl.train.sync.unit_buffers import UnitBuffers
from flodl.train.sync.units import Units, seed_generators
from flodl.train.training import Training

_CHECK_EVERY: Final = 50  # windows between two comparisons of all weights
UnitResult: TypeAlias = tuple[Tensor, Mapping[str, Tensor]]  # loss and metrics of a unit
_FIRST: Final = 2  # windows after which a model that remembers has shown it


@final
class WindowStep:
    """Windows of units, each of which ends in the same state on every rank.

    Attributes:
        decision: how steps run, in one line.
        wish: returns why this rank wants to stop, empty if it does not.
        is_late: not asked: the rank that writes decides when.
        next_save: not asked.
        agreed: why all ranks stop after the last window, empty if they do not.
        saves: `None`, because each rank may decide by itself when to save.
        joins: whether ranks ask to join, as all know after the last window.
        tells_all: True, because every rank is told the losses of all batches.
        before: the parts of the ranks in an epoch that `begin` continues.
        busy: seconds of computation of each rank, since the epoch began.
        counts: units of each rank, since the epoch began.
    """

    def __init__(
        self,
        recipe: Recipe,
        summer: UnitSummer,
        units: Units,
        *,
        exact: Exactness,
        seed: int,
        fused: bool,
        report: Callable[[str], object],
    ) -> None:
        self.recipe = recipe
        self.units = units
        self.wish: Callable[[], str] = str
        self.is_late: Callable[[], bool] = bool
        self.next_save: Callable[[], float] = float
        self.saves: bool | None = None
        self.joins = False
        self.tells_all = True
        self.before: tuple[RankShare, ...] = ()
        self.agreed = ""
        self.busy: dict[int, float] = {}
        self.counts: dict[int, int] = {}
        self._summer = summer
        self._exact = exact
        self._seed = seed
        self._eager = EagerStep(recipe)
        self._buffers = UnitBuffers(recipe.model)
        self._position = 0
        self._pending = self._new_sums()
        self._present = torch.zeros(len(recipe.trained()), dtype=torch.float64)
        self._windows = 0
        self._last: tuple[Sums, list[UnitResult]] | None = None
        self._began = time.perf_counter()
        self._seconds = 0.0
        update = fuse(recipe.optimizer) if fused else type(recipe.optimizer).__name__
        ranks = summer.world_size
        self.decision = (
            f"eager with {update}, gradients of {recipe.accumulate} units per update summed "
            f"({exact}) over {ranks} {'rank' if ranks == 1 else 'ranks'}; {units.decision}"
        )
        report(self.decision)

    @property
    def asks(self) -> bool:
        """Whether all ranks know of requests that they did not take."""
        return self._summer.asks

    def take_requests(self) -> tuple[str, ...]:
        """Return these requests."""
        return self._summer.take_requests()

    @property
    def at_boundary(self) -> bool:
        """Whether no update is unfinished."""
        return self._position == 0

    @property
    def wanted(self) -> int:
        """Units that the running update still needs."""
        return self.recipe.accumulate - self._position

    def begin(self, training: Training, most: int | None) -> None:
        """Start an epoch, with the same random numbers on every rank."""
        del most
        seed_generators(self._seed, training.epoch)
        self.units.begin(training.epoch)
        self._buffers.begin()  # a checkpoint may have changed them
        self.busy = {each.rank: each.busy for each in self.before}
        self.counts = {each.rank: each.batches for each in self.before}
        self.before = ()
        self._began = time.perf_counter()

    def run(self, training: Training, most: int | None, take: Take) -> bool:
        """Train the units that the running update needs, as far as there are; return False without any.

        Args:
            training: the position, which moves on.
            most: steps after which the training ends, in total.
            take: is told the loss and the metrics of each unit.
        """
        wanted = self.wanted if most is None else min(self.wanted, most - training.step)
        count = self.units.ready(training.position, wanted)
        if count <= 0:
            return False
        paced = training.schedule.per_update
        if paced and self.at_boundary:
            training.schedule.before_update(training.update, training.lr_scale)
        results = self._window(training.epoch, training.position, count)
        if self.at_boundary:
            training.update += 1
            if paced:
                training.schedule.after_update()
        for loss, metrics in results:
            training.position += 1
            training.step += 1
            take(loss, metrics, None)
        now = time.perf_counter()
        self._seconds, self._began = now - self._began, now
        return True

    def report(self, training: Training) -> WindowReport:
        """Return what the ranks did in the last window."""
        assert self._last is not None
        sums, results = self._last
        counts = sums.counts
        return WindowReport(
            step=training.step,
            seconds=self._seconds,
            loss=sum(loss.item() for loss, _ in results) / max(len(results), 1),
            per_rank=tuple(
                RankShare(rank=rank, batches=counts.get(rank, 0), busy=busy)
                for rank, busy in sorted(sums.busy.items())
            ),
        )

    def _window(self, epoch: int, position: int, count: int) -> list[UnitResult]:
        """Train the units of a window, and update if they complete an accumulation.

        Args:
            epoch: the epoch.
            position: the first unit, counted in the epoch.
            count: units of the window, at most `wanted`.

        Raises:
            TrainingError: the model remembers something between two units.
        """
        window = _WindowState(self, epoch, position)
        sums = self._summer.add_up(
            count,
            ExactWork(
                train=window.train,
                tensors=lambda held: window.tensors(held, count),
                note=window.note,
                fingerprint=window.fingerprint,
            ),
        )
        for rank, units in sums.counts.items():
            self.counts[rank] = self.counts.get(rank, 0) + units
        for rank, seconds in sums.busy.items():
            self.busy[rank] = self.busy.get(rank, 0.0) + seconds
        results = self._take(window, sums.tensors, sums.notes, sums.held, count)
        self._last = (sums, results)
        self.joins = self._summer.joins
        self._windows += 1
        self._position += count
        if self._position == self.recipe.accumulate:
            self._update()
        return results

    def admit(self, training: Training, most: int | None, pack: Callable[[], Tensor]) -> None:
        """Let ranks join that ask for it; they continue from the state that all ranks hold now."""
        del training, most
        self._summer.admit(pack)
        self._windows = 0  # as on the ranks that join

    def agree(self, wish: str) -> str:
        """Return why all ranks stop, if one of them wishes to; empty if none does."""
        self.agreed = agree(self._summer, wish)
        return self.agreed

    def mean_of(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the means over the ranks of values that each rank has of its own."""
        return mean_of(self._summer, values)

    def epoch_means(self, own: Mapping[str, float]) -> dict[str, float]:
        """Return the means over all batches of the epoch, which every rank has already."""
        return dict(own)

    def shares(self) -> tuple[RankShare, ...]:
        """Return what each rank did in this epoch."""
        return tuple(
            RankShare(rank=rank, batches=self.counts.get(rank, 0), busy=seconds)
            for rank, seconds in sorted(self.busy.items())
        )

    def close(self) -> None:
        """Nothing runs in the background."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as `TrainStep` does, so that one device can continue it too."""
        state: dict[str, Any] = {"position": self._position}
        if self._position:
            state["gradients"] = self._totals(self._pending)
            state["blocks"] = self._pending.state_dict()
            state["exact"] = self._exact
            state["present"] = self._present.clone()
        if self._eager.scaler is not None:
            state["scaler"] = self._eager.scaler.state_dict()
        if self.recipe.ema is not None:
            state["ema"] = self.recipe.ema.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state.

        Raises:
            ValueError: an unfinished update was gathered in another order.
        """
        require_consecutive(state)
        position = int(state.get("position", 0))
        gradients = state.get("gradients", [])
        self._pending = self._new_sums()
        if position and state.get("exact") == self._exact:
            self._pending.load_state_dict(state["blocks"])
            self._present = state["present"].to("cpu", torch.float64)
        elif position and self._exact == "bits" and position > 1:
            raise ValueError(
                f"{position} batches of an unfinished update were added up one after the other, and "
                'exact="bits" adds in another order; continue from the end of an epoch, or with exact="sum"'
            )
        elif position:
            self._pending.insert((0, 0), list(gradients))
            self._present = torch.tensor(
                [float(each is not None) for each in gradients], dtype=torch.float64
            )
        self._position = position
        if self._eager.scaler is not None and state.get("scaler"):
            self._eager.scaler.load_state_dict(dict(state["scaler"]))
        if self.recipe.ema is not None and "ema" in state:
            self.recipe.ema.load_state_dict(dict(state["ema"]))

    def _new_sums(self) -> GradientSums:
        return GradientSums(self.recipe.trained(), self.recipe.accumulate, self._exact)

    def _take(
        self,
        window: _WindowState,
        tensors: Sequence[Tensor],
        notes: Mapping[int, str],
        held: Holdings,
        count: int,
    ) -> list[UnitResult]:
        """Make the sums of a window part of the running update; return the results of its units."""
        parameters = len(self._present)
        layout = window.layout(held)
        table = tensors[-1].to("cpu", torch.float64)
        for place, block in enumerate(layout):
            part = tensors[place * parameters : (place + 1) * parameters]
            self._pending.insert(block, list(part))
        self._present += table[:parameters]
        losses = table[parameters:]
        told: dict[int, Any] = {}
        self.agreed = ""
        for _, text in sorted(notes.items()):
            found = json.loads(text)
            self.agreed = self.agreed or found["stop"]
            told.update({int(unit): each for unit, each in found["units"].items()})
        self._buffers.commit({unit: each["buffers"] for unit, each in told.items()})
        results: list[UnitResult] = []
        for unit in range(count):
            each = told.get(unit, {"metrics": {}, "recorded": {}})
            for name, values in each["recorded"].items():
                for value in values:
                    record_scalar(name, value)
            metrics = {
                name: torch.tensor(value, dtype=torch.float64)
                for name, value in each["metrics"].items()
            }
            results.append((losses[unit], metrics))
        return results

    def _totals(self, sums: GradientSums) -> list[Tensor | None]:
        return [
            total if present else None
            for total, present in zip(sums.total(), self._present.tolist(), strict=True)
        ]

    def _update(self) -> None:
        for each, total in zip(self.recipe.trained(), self._totals(self._pending), strict=True):
            each.grad = total
        self._eager.update()
        for each in self.recipe.trained():
            each.grad = None
        self._position = 0
        self._pending = self._new_sums()
        self._present = torch.zeros_like(self._present)


@final
class _WindowState:
    """What this rank has of one window: the sums of its gradients, and what its units told."""

    def __init__(self, step: WindowStep, epoch: int, position: int) -> None:
        self._step = step
        self._epoch = epoch
        self._position = position
        self._offset = step._position
        self._sums = step._new_sums()
        self._parameters = step.recipe.trained()
        self._present = [0] * len(self._parameters)
        self._losses: dict[int, float] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self._crc: int | None = None

    def train(self, unit: int) -> float:
        """Train one unit of the window, and return the seconds that it took, data aside."""
        step = self._step
        seed_generators(step._seed, self._epoch, self._position + unit)
        batch = step.units.read(self._position + unit)
        began = time.perf_counter()
        step._buffers.reset(unit)
        try:
            with recorded_apart() as recorded:
                loss = step._eager.gather(batch)
        except Exception as error:
            error.add_note(f"in batch {self._position + unit} of epoch {self._epoch}")
            raise
        if step._windows < _FIRST and has_state(step.recipe.model):
            raise TrainingError(
                "the model remembers values between two batches (a recurrent graph), so its batches cannot "
                "be divided over devices; train it on one device, without `.policy(...)`"
            )
        self._losses[unit] = loss.item()
        self._present = [
            count + (each.grad is not None)
            for count, each in zip(self._present, self._parameters, strict=True)
        ]
        told = {
            "metrics": {name: _number(name, each) for name, each in step._eager.metrics.items()},
            "recorded": recorded,
            "buffers": step._buffers.additions(unit),
        }
        if any(told.values()):
            self._told[unit] = told
        self._sums.take(self._offset + unit)
        return time.perf_counter() - began

    def layout(self, held: Holdings) -> list[Block]:
        """Return the blocks of gradients that the ranks add to the sums."""
        return self._sums.layout(
            [self._offset + unit for unit in units] for units in units_by_rank(held)
        )

    def tensors(self, held: Holdings, count: int) -> list[Tensor]:
        """Return the blocks, then one vector: presence of each gradient, and loss of each unit."""
        table = torch.zeros(len(self._parameters) + count, dtype=torch.float64)
        table[: len(self._parameters)] = torch.tensor(self._present, dtype=torch.float64)
        for unit, loss in self._losses.items():
            table[len(self._parameters) + unit] = loss
        blocks = [each for block in self.layout(held) for each in self._sums.block(block)]
        return [*blocks, table]

    def note(self) -> str:
        """Return what the other ranks must know besides numbers; mostly nothing."""
        stop = self._step.wish()
        if not stop and not self._told:
            return ""
        return json.dumps({"stop": stop, "units": self._told})

    def fingerprint(self) -> int:
        """Return a checksum of the place, and now and then of all weights."""
        if self._crc is None:
            step = self._step
            place = f"{self._epoch}/{self._position}/{self._offset}/{step.recipe.accumulate}"
            self._crc = zlib.crc32(place.encode())
            # Unlike devices round an update differently: some 1e-7 of a weight, from the same sums.
            if step._windows % _CHECK_EVERY == 0 and step._summer.on_cpu:
                for each in self._parameters:
                    self._crc = zlib.crc32(as_bytes(on_host(each)), self._crc)
        return self._crc


def _number(name: str, value: Tensor) -> float:
    if value.numel() != 1:
        raise TrainingError(
            f"the metric `{name}` has the shape {list(value.shape)}; a metric is one number per step, "
            "such as its mean"
        )
    return float(value)
