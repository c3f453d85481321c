"""The ten benchmark models: each flow computes what its plain twin computes."""

import pytest
import torch

from benchmarks.models.suite import CASES

pytestmark = pytest.mark.torch


NAMES = (
    "transformer", "mlp", "residual_tower", "feedback_fixed", "gated_routing", "iterative_refine", "gru_seq",
    "conv_autoenc", "lstm_seq", "convnet",
)  # fmt: skip
BY_NAME = {case.name: case for case in CASES}


def test_suite_has_the_ten_models():
    assert set(BY_NAME) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_flow_equals_its_plain_twin(name):
    case = BY_NAME[name]
    plain, flow = (case.make(kind, "tiny", "cpu") for kind in ("plain", "flow"))
    assert list(plain.state_dict()) == list(flow.state_dict())
    batch = case.batch("tiny", "cpu")
    losses = [case.loss()(model, batch) for model in (plain, flow)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    for ours, theirs in zip(flow.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
