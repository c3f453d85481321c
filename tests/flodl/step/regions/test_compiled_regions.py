"""Regions that the C++ compiler has made: each once, for all layers and for deeper models too."""

import pytest
import torch

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
