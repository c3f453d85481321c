"""One device by the rules of several: the reference of `exact="bits"`, without any process or group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flodl.distributed.team.lone_summer import LoneSummer
from flodl.train.hooks import MetricsHook
from flodl.train.outcome import RunHandle
from flodl.train.sync.sharing import Sharing, threads, threads_for

if TYPE_CHECKING:
    import torch

    from flodl.train.rank_order import RankOrder


def train_alone(
    order: RankOrder, device: torch.device, metrics_fns: Sequence[Callable[[Any], object]]
) -> RunHandle:
    """Train in this process, and return a handle on the result."""
    exact = order.exact or "sum"
    sharing = Sharing(summer=LoneSummer(), exact=exact, seed=order.settings["seed"])
    with threads(threads_for(exact)):
        trainer = order.trainer(device, sharing)
        for fn in metrics_fns:
            trainer.on("epoch", MetricsHook(fn))
        return RunHandle(order.fit(trainer), (device,), trainer.model)
