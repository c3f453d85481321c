"""The comparison of one device and two trains its models, and shows each seed and the mean."""

import re

import pytest
import torch

from benchmarks import quality

pytestmark = pytest.mark.torch


def test_data_of_training_and_test_differ():
    for make in (quality.text, quality.images):
        first, other = make(32, 0)[0], make(32, 300_000)[0]
        assert first.shape == other.shape
        assert not torch.equal(first, other)


def test_models_take_their_data():
    for model, make, *_ in quality.MODELS.values():
        loss, metrics = quality.loss_of(model(), make(4, 0))
        assert loss.isfinite()
        assert 0.0 <= metrics["right"] <= 1.0


@pytest.mark.slow
def test_line_of_two_devices_has_a_share_for_each_seed():
    line = quality.line("lenet", 1, 2, epochs=1)
    assert re.fullmatch(r"\| lenet \| 1 \| 2 \| \d+\.\d% \| \d+\.\d% \|", line)
