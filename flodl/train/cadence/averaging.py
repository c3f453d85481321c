"""The share of one rank in a training by policy Cadence or Async: which parts of a trainer change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from flodl.distributed.control import ApplyPolicy
from flodl.distributed.divergence import ConvergenceGuard
from flodl.distributed.el_che import ElChe
from flodl.distributed.team.exact_runner import ExactRunner
from flodl.errors import TrainingError
from flodl.step.step import make_step
from flodl.train.cadence.ahead import AheadUnits
from flodl.train.cadence.cadence_step import CadenceStep
from flodl.train.cadence.weights import Outer
from flodl.train.sources import TorchSource
from flodl.train.sync.sharing import RankMixin, require_no_sync_norm
from flodl.train.sync.units import SequentialUnits, TorchUnits, Units, units_of

if TYPE_CHECKING:
    import torch

    from flodl.step.recipe import Recipe
    from flodl.train.protocols import Source
    from flodl.train.settings import Settings


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CadenceOptions:
    """The choices of a training by policy Cadence or Async.

    Attributes:
        policy: which of them.
        el_che: the choice of the windows.
        guard: threshold of the convergence guard; `None` switches it off.
        outer: the optimizer of averages; `None` for the plain mean.
    """

    policy: ApplyPolicy = ApplyPolicy.CADENCE
    el_che: ElChe = field(default_factory=ElChe)
    guard: float | None = 0.05
    outer: Outer | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Averaging(RankMixin):
    """The ranks of a training, as the trainer of one of them sees them.

    Attributes:
        summer: the windows of the team.
        options: the choices of the policy.
        seed: seed of the generators of every batch.
        is_locked: whether another process holds the run directory for all ranks.
    """

    summer: ExactRunner
    options: CadenceOptions
    seed: int
    is_locked: bool = True

    def step(
        self,
        recipe: Recipe,
        source: Source,
        device: torch.device,
        settings: Settings,
        report: Callable[[str], object],
    ) -> CadenceStep:
        """Return the step of a trainer.

        Raises:
            TrainingError: the model or the data cannot be divided.
        """
        require_no_sync_norm(recipe.model)
        units: Units = units_of(source, device)
        is_listed = isinstance(units, TorchUnits)
        if is_listed and isinstance(source, TorchSource) and source.loader.num_workers:
            units = AheadUnits(source.loader, device)
        if isinstance(units, SequentialUnits):
            raise TrainingError(
                f"policy {self.options.policy} lets each rank train a part of the epoch, and this data can "
                "only be read from its beginning: give a data set, a list of batches or a map-style "
                'DataLoader; or use .policy("sync"), with which every rank reads all'
            )
        local = make_step(
            recipe.model,
            recipe.optimizer,
            recipe.train_fn,
            mode=settings.step,
            clip_norm=recipe.clip_norm,
            precision=recipe.precision,
            accumulate=recipe.accumulate,
            scaler=recipe.scaler,
            fused=settings.fused,
            report=report,
        )
        guard = self.options.guard
        return CadenceStep(
            local,
            self.summer,
            units,
            settings,
            policy=self.options.policy,
            seed=self.seed,
            el_che=self.options.el_che,
            guard=None if guard is None else ConvergenceGuard(guard),
            outer=self.options.outer,
            ema=recipe.ema,
            report=report,
        )
