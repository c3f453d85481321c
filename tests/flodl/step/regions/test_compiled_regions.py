"""Regions that the C++ compiler has made: each once, for all layers and for deeper models too."""

import pytest
import torch
from torch import nn

from flodl.nn.optimizers import AdamW
from flodl.step.artifact import compiler_missing
from flodl.step.regions import cutting
from flodl.step.step import make_step
from tests.flodl.step.regions.test_cutting import loss_of, stack

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(
        compiler_missing(torch.device("cpu")) is not None, reason="there is no C++ compiler"
    ),
]


def trained(depth, mode):
    model = stack(depth, dropout=0.1)
    step = make_step(model, AdamW(model, 0.01), loss_of, mode=mode)
    torch.manual_seed(1)
    batches = [(torch.randn(4, 5), torch.randn(4, 1)) for _ in range(12)]
    torch.manual_seed(2)
    losses = torch.stack([step(batch) for batch in batches])
    return step, losses, list(model.parameters())


def test_compiled_regions_train_as_eager_and_serve_a_deeper_model(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "_LEAST_OPERATIONS", 0)
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    files = []
    for depth in (8, 10):
        step, losses, parameters = trained(depth, "compiled")
        assert step.mode == "compiled", step.decision
        _, expected, twins = trained(depth, "eager")
        torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-4)
        for one, other in zip(parameters, twins, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)
        files.append({path.parent.name for path in tmp_path.glob("steps/*/step.so")})
    assert 2 <= len(files[0]) <= 6
    assert len(files[0] & files[1]) >= 3  # forward, backward and update of a layer
    assert len(files[1] - files[0]) <= 3  # the stretches between them
    step, _, _ = trained(10, "compiled")
    assert "compiled from an earlier run" in step.decision


class Tagger(nn.Module):
    """A recurrent network whose time steps are the copies."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), 8)
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
        return self.head(h)


def test_compiled_regions_of_an_lstm_are_those_of_one_time_step(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "_LEAST_OPERATIONS", 0)
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    losses = {}
    for mode in ("compiled", "eager"):
        torch.manual_seed(0)
        model = Tagger()
        step = make_step(model, AdamW(model, 0.01), loss_of, mode=mode)
        torch.manual_seed(1)
        batches = [(torch.randn(4, 12, 3), torch.randn(4, 1)) for _ in range(12)]
        losses[mode] = torch.stack([step(batch) for batch in batches])
        assert step.mode == mode, step.decision
    torch.testing.assert_close(losses["compiled"], losses["eager"], rtol=1e-4, atol=1e-5)
    files = {path.parent.name for path in tmp_path.glob("steps/*/step.so")}
    assert 2 <= len(files) <= 8
