"""The decisions of a builder, as they travel to the processes of a training on several devices."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from flodl.train.settings import Exactness

if TYPE_CHECKING:
    import torch

    from flodl.distributed.team import ExactRunner
    from flodl.train.builder import TrainerBuilder
    from flodl.train.cadence.averaging import Averaging
    from flodl.train.state import TrainedState
    from flodl.train.sync.sharing import Sharing
    from flodl.train.trainer import Trainer


@final
@dataclass(frozen=True)  # no slots: an error names the part that cannot travel
class RankOrder:
    """What a process of a training on several devices needs to know, as it travels to it.

    Attributes:
        builder: the decisions.
        exact: how equal to one device the numbers of policy Sync are; `None` for policies Cadence and Async.
    """

    builder: TrainerBuilder
    exact: Exactness | None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that were made."""
        return self.builder._settings

    @property
    def parts(self) -> dict[str, Any]:
        """Monitor, run directory, and what else is no setting."""
        return self.builder._parts

    @property
    def metrics_fns(self) -> list[Callable[[Any], object]]:
        """The functions that get the metrics of each epoch."""
        return self.builder._metrics_fns

    def stripped(self) -> RankOrder:
        """Return the order without what stays in the process that began the run."""
        builder = copy(self.builder)
        builder._parts = {key: each for key, each in self.parts.items() if key != "monitor"}
        builder._settings = {**self.settings, "progress": True, "on_signal": "return"}
        builder._metrics_fns = []
        return RankOrder(builder, self.exact)

    def sharing(self, runner: ExactRunner) -> Sharing | Averaging:
        """Return the share of one rank."""
        from flodl.distributed.control import ApplyPolicy
        from flodl.train.cadence.averaging import Averaging, CadenceOptions
        from flodl.train.cadence.weights import Outer
        from flodl.train.sync.sharing import Sharing

        seed = self.settings["seed"]
        if self.exact is not None:
            return Sharing(summer=runner, exact=self.exact, seed=seed, is_locked=True)
        chosen = dict(self.builder._cadence)
        if self.builder._policy:
            chosen["policy"] = ApplyPolicy(self.builder._policy)
        if "outer" in chosen:
            chosen["outer"] = Outer(*chosen["outer"])
        return Averaging(summer=runner, options=CadenceOptions(**chosen), seed=seed)

    def trainer(self, device: torch.device, sharing: Sharing | Averaging) -> Trainer:
        """Make model, optimizer and trainer of one rank."""
        return self.builder._trainer_on(device, sharing)

    def fit(self, trainer: Trainer) -> TrainedState:
        """Train."""
        builder = self.builder
        return trainer.fit(builder._data, batch_size=builder._batch_size, resume=builder._resume)
