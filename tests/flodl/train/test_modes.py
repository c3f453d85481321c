"""A mode that does not exist is refused where it is named."""

import pytest
import torch

from flodl import Trainer
from flodl.data.loader import DataLoader
from flodl.errors import DataError
from flodl.observe.metrics import MetricLog
from flodl.observe.trend import Trend
from flodl.runs.checkpoints import Keep
from flodl.train.stopping import NoBetter, TrendRule

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    "name",
    [
        lambda: Trend((1.0,), "nonsense"),
        lambda: MetricLog().set_mode("loss", "nonsense"),
        lambda: NoBetter("loss", 1, 0.0, "nonsense"),
        lambda: TrendRule("loss", bool, "nonsense"),
        lambda: Keep(mode="nonsense"),
        lambda: DataLoader(torch.zeros(4, 1), 2, mode="nonsense"),
        lambda: Trainer.builder(
            lambda: torch.nn.Linear(1, 1), lambda p: torch.optim.SGD(p, 0.1), lambda m, b: m(b).mean()
        ).early_stop(mode="nonsense"),
        lambda: Trainer.builder(
            lambda: torch.nn.Linear(1, 1), lambda p: torch.optim.SGD(p, 0.1), lambda m, b: m(b).mean()
        ).dataset([torch.zeros(1, 1)]).step("nonsense").progress(False).run().join(),
    ],
    ids=["trend", "log", "no better", "rule", "keep", "loader", "early stop", "step"],
)  # fmt: skip
def test_mode_that_does_not_exist_is_refused(name):
    with pytest.raises((ValueError, DataError), match="nonsense"):
        name()
