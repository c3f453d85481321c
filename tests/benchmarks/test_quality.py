"""The comparison of one device and two trains its models, and shows means, deviations and what holds."""

import pytest
import torch

from benchmarks import quality
from flodl.train.comparison import PolicyComparison, PolicyRun

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]


def test_data_of_training_and_test_differ():
    for make in (quality.text, quality.images):
        first, other = make(32, 0)[0], make(32, 300_000)[0]
        assert first.shape == other.shape
        assert not torch.equal(first, other)


@pytest.mark.parametrize("name", quality.MODELS)
def test_model_takes_its_data_and_loss(name):
    model, make, _, loss_of, *_ = quality.MODELS[name]
    found = loss_of(model(), make(4, 0))
    loss, metrics = found if isinstance(found, tuple) else (found, {})
    assert loss.isfinite()
    assert 0.0 <= metrics.get("right", 0.5) <= 1.0


def test_gpt_does_not_see_later_characters():
    model = quality.GptNano().eval()
    first = torch.randint(128, (1, quality.LENGTH))
    other = first.clone()
    other[0, 20:] = 0
    assert torch.equal(model(first)[..., :20], model(other)[..., :20])


def run(policy, seed, right=None, loss=0.5):
    scalars = {"val_loss": loss} | ({} if right is None else {"val_right": right})
    devices = 1 if policy == "one device" else 2
    return PolicyRun(
        policy=policy, devices=devices, seed=seed, seconds=1.0, steps=8, loss=loss, scalars=scalars
    )


@pytest.mark.parametrize(
    ("rights", "holds"),
    [([0.69, 0.70, 0.71], "yes"), ([0.90, 0.91, 0.92], "yes"), ([0.60, 0.61, 0.62], "no")],
    ids=["same", "better", "worse"],
)
def test_lines_hold_if_the_mean_is_not_far_below_one_device(rights, holds):
    alone = [run("one device", seed, 0.70 + 0.01 * seed) for seed in range(3)]
    found = PolicyComparison((*alone, *(run("cadence", *each) for each in enumerate(rights))))
    first, other = quality.lines("mlp", 12, found)
    assert first == "| mlp | 12 | one device | 0.5000 ± 0.0000 | 71.0 ± 1.0 % | - |"
    assert other.startswith("| mlp | 12 | two, cadence | 0.5000 ± 0.0000 | ")
    assert other.endswith(f"| {holds} |")


def test_lines_without_a_part_that_is_right_compare_losses():
    alone = [run("one device", seed, loss=0.5 + 0.01 * seed) for seed in range(3)]
    worse = [run("async", seed, loss=0.6 + 0.01 * seed) for seed in range(3)]
    lines = quality.lines("conv-ae", 1, PolicyComparison((*alone, *worse)))
    assert lines[1] == "| conv-ae | 1 | two, async | 0.6100 ± 0.0100 | - | no |"


@pytest.mark.slow
def test_compared_model_has_a_line_for_each_policy():
    found = quality.compared("lenet", 1, epochs=1)
    shown = [each.split(" | ")[2] for each in quality.lines("lenet", 1, found)]
    assert shown == ["one device", "two, sync", "two, cadence", "two, async"]
    # Fixed shares of 5 to 2 of 64 batches.
    assert found.of("cadence")[0].steps == 64
