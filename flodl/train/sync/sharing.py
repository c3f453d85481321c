"""The share of one rank in a training: how the parts of a trainer change when several ranks train."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from flodl.distributed.team.exact_runner import ExactWork, UnitSummer
from flodl.errors import TrainingError
from flodl.train.evaluation import Evaluation
from flodl.train.scalars import recorded_apart
from flodl.train.settings import Exactness
from flodl.train.sync.meetings import meet
from flodl.train.sync.units import SequentialUnits, Units, seed_generators, units_of
from flodl.train.sync.window_step import WindowStep

if TYPE_CHECKING:
    from flodl.step.recipe import Recipe
    from flodl.train.protocols import Evaluating, Source
    from flodl.train.settings import Settings

_EVALUATION = 0x65766C  # separates the random numbers of an evaluation from those of an epoch


class RankMixin:
    """The parts of a rank that are the same for every policy, given `summer` and `seed`."""

    __slots__ = ()
    summer: UnitSummer
    seed: int

    def is_first(self) -> bool:
        """Return True for the first rank that is alive, which writes for all."""
        return self.summer.members[:1] == (self.summer.rank,)  # no members before this rank joined

    def evaluation(self, alone: Evaluation) -> Evaluating:
        """Return an evaluation whose batches the ranks share."""
        return SharedEvaluation(alone, self.summer, self.seed)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing(RankMixin):
    """The ranks of a training, as the trainer of one of them sees them.

    Attributes:
        summer: adds up the units of all ranks.
        exact: `"sum"` is equal to one device up to rounding, `"bits"` to the bit.
        seed: seed of the generators of every unit.
        is_locked: whether another process holds the run directory for all ranks.
    """

    summer: UnitSummer
    exact: Exactness
    seed: int
    is_locked: bool = False

    def step(
        self,
        recipe: Recipe,
        source: Source,
        device: torch.device,
        settings: Settings,
        report: Callable[[str], object],
    ) -> WindowStep:
        """Return the step of a trainer.

        Raises:
            TrainingError: a setting is impossible with shared batches.
        """
        if settings.step in ("graph", "compiled"):
            raise TrainingError(
                f'step="{settings.step}" captures the update together with the gradients, and policy Sync '
                'adds gradients up over ranks in between; leave `.step(...)` out, or use step="eager"'
            )
        require_no_sync_norm(recipe.model)
        ranks = self.summer.world_size
        if settings.accumulate < ranks:
            report(
                f"an update has {settings.accumulate} batches in total, for {ranks} ranks: "
                f"{ranks - settings.accumulate} of them never train. Policy Sync gives the numbers of one "
                f"device, so it does not add batches by itself; use .accumulate({ranks}) or more"
            )
        return WindowStep(
            recipe,
            self.summer,
            units_of(source, device),
            exact=self.exact,
            seed=self.seed,
            fused=settings.fused,
            report=report,
        )


def threads_for(exact: Exactness) -> int | None:
    """Return the threads that every rank computes with, if that decides the bits; else `None`.

    Kernels add up in an order that depends on their threads. So `"bits"` fixes them: OMP_NUM_THREADS, or 1.
    """
    if exact != "bits":
        return None
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else 1


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Compute with a number of threads; `None` leaves it as it is."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def require_no_sync_norm(model: nn.Module) -> None:
    """Refuse SyncBatchNorm, which waits in every batch for ranks that train another number of batches.

    Raises:
        TrainingError: the model has such a module; the message names the first.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.SyncBatchNorm):
            raise TrainingError(
                f"`{name}` is a SyncBatchNorm: it waits in each batch for all ranks, which train different "
                "numbers of batches. Use BatchNorm; flodl keeps its statistics as one device would"
            )


@final
class SharedEvaluation:
    """An evaluation of which each rank does some batches; the means are added in the order of the data."""

    def __init__(self, alone: Evaluation, summer: UnitSummer, seed: int) -> None:
        self._alone = alone
        self._summer = summer
        self._seed = seed
        self._units: Units = units_of(alone.source, alone.device)

    def run(
        self,
        model: nn.Module,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> dict[str, float]:
        """Evaluate and return the means by name, the same on all ranks."""
        del interruptible  # a rank that gave up would leave the others waiting
        seed_generators(self._seed, _EVALUATION)
        length = self._alone.source.length()
        if length is None or isinstance(self._units, SequentialUnits):
            return self._first_of_all(model)
        self._units.begin(0)
        told: dict[int, Mapping[str, Any]] = {}
        with self._alone.in_place(model):

            def train(unit: int) -> float:
                seed_generators(self._seed, _EVALUATION, unit)
                with recorded_apart() as recorded:
                    values, size = self._alone.values_of(model, self._units.read(unit))
                told[unit] = {"values": values, "size": size, "recorded": recorded}
                return 0.0

            sums = self._summer.add_up(
                length,
                ExactWork(train=train, tensors=_nothing, note=lambda: json.dumps(told)),
            )
        whole: dict[int, Any] = {}
        for text in sums.notes.values():
            whole.update({int(unit): each for unit, each in json.loads(text).items()})
        return self._alone.means_of([whole[unit] for unit in sorted(whole)])

    def _first_of_all(self, model: nn.Module) -> dict[str, float]:
        """Let every rank evaluate all, and take the values of the first."""
        own = self._alone.run(model)
        return dict(json.loads(min(meet(self._summer, json.dumps(own)).items())[1]))


def _nothing(_held: object) -> list[Tensor]:
    return []
