"""One training under several policies: which trainings run, what is compared, and what the table shows."""

import json
import math

import pytest
import torch

from flodl import Trainer, TrainingError
from flodl.errors import DeviceError
from flodl.train.comparison import PolicyComparison, PolicyRun, compare_policies

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]


def loss_of(model, batch):
    inputs, wanted = batch
    error = torch.nn.functional.mse_loss(model(inputs), wanted)
    return error, {"double": 2.0 * error.detach()}


def make_model():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def make():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(96, 4, generator=generator)
    return (
        Trainer.builder(make_model, lambda params: torch.optim.SGD(params, 0.05), loss_of)
        .dataset([inputs, inputs.sum(1, keepdim=True)])
        .batch_size(8)
        .num_epochs(2)
        .step("eager")
        .progress(False)
    )


def run(policy, seed=0, **numbers):
    plain = {"devices": 2, "seconds": 1.0, "steps": 10, "loss": 0.5}
    return PolicyRun(policy=policy, seed=seed, **(plain | numbers))


@pytest.mark.slow
def test_compare_on_two_processes_gives_the_numbers_of_each_training():
    found = compare_policies(make, ["cpu"] * 2, seeds=[3])
    first, sync, cadence, ahead = found.runs
    assert found.policies == ("one device", "sync", "cadence", "async")
    assert [each.devices for each in found.runs] == [1, 2, 2, 2]
    assert {each.steps for each in found.runs} == {12}  # of the second epoch
    assert all(each.scalars["double"] == pytest.approx(2 * each.loss) for each in found.runs)
    assert sync.distance < 1e-6  # sums of gradients in another order
    assert sync.loss == pytest.approx(first.loss, rel=1e-5)
    assert 0.0 < sync.share_of_ideal <= 1.0
    assert all(1e-6 < each.distance < 1.0 for each in (cadence, ahead))


def test_compare_on_one_device_finds_equal_bits_for_each_seed():
    told = []
    found = compare_policies(make, ["cpu"], policies=["sync"], seeds=[0, 3], told=told.append)
    assert tuple(told) == found.runs
    assert [(each.policy, each.seed) for each in found.runs] == [
        ("one device", 0), ("sync", 0), ("one device", 3), ("sync", 3),
    ]  # fmt: skip
    assert {each.distance for each in found.runs} == {0.0}
    assert {each.share_of_ideal for each in found.of("one device")} == {0.0}
    assert str(found).splitlines()[2].endswith("equal")
    alone = make().seed(3).device("cpu").run().join()
    assert found.of("one device")[1].loss == alone.history[-1].avg_loss


@pytest.mark.parametrize("choice", [{"policies": []}, {"seeds": ()}], ids=["policy", "seed"])
def test_compare_without_a_policy_or_a_seed_names_them(choice):
    with pytest.raises(TrainingError, match="at least one policy and one seed"):
        compare_policies(make, 2, **choice)


def test_compare_with_a_training_that_ran_says_what_to_return():
    with pytest.raises(TrainingError, match=r"returned RunHandle; let it return Trainer.builder"):
        compare_policies(lambda: make().run(), ["cpu"])


def test_compare_under_a_launcher_says_how_to_start_it(monkeypatch):
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "::1",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        TrainingError, match=r"one of several; .* run its script with plain `python`"
    ):
        compare_policies(pytest.fail, 2)


def test_compare_trains_alone_on_the_first_device_whatever_the_builder_has():
    found = compare_policies(lambda: make().devices(2), ["cpu"], policies=["sync"])
    assert [each.devices for each in found.runs] == [1, 1]


def test_compare_of_trainings_with_a_run_directory_names_it(tmp_path):
    with pytest.raises(TrainingError, match=r"share one run directory; leave out \.run_dir"):
        compare_policies(lambda: make().run_dir(tmp_path), ["cpu"])
    assert list(tmp_path.iterdir()) == []


def test_compare_of_a_training_that_ends_in_its_first_epoch_says_so():
    with pytest.raises(
        TrainingError, match=r"one device ended in its first epoch .*a whole epoch"
    ):
        compare_policies(lambda: make().max_steps(5), ["cpu"], policies=["sync"])


def test_compare_of_one_epoch_has_the_time_of_it():
    found = compare_policies(lambda: make().num_epochs(1), ["cpu"], policies=["sync"])
    assert [each.steps for each in found.runs] == [12, 12]
    assert all(each.seconds > 0 for each in found.runs)


def test_compare_on_a_device_that_is_not_there_trains_nothing():
    with pytest.raises(DeviceError):
        compare_policies(pytest.fail, ["cuda:99", "cpu"])


def test_table_of_several_seeds_has_mean_and_deviation():
    runs = (
        run(
            "one device", devices=1, seconds=2.0, loss=0.31, scalars={"val_right": 0.5, "only": 1}
        ),
        run("cadence", loss=0.3, share_of_ideal=0.9, distance=0.02, scalars={"val_right": 0.6}),
        run("one device", 1, devices=1, seconds=2.0, loss=0.29, scalars={"val_right": 0.7}),
        run(
            "cadence", 1, loss=0.34, share_of_ideal=0.8, distance=0.01, scalars={"val_right": 0.8}
        ),
    )
    found = PolicyComparison(runs)
    assert str(found).splitlines() == [
        "policy      devices  batches/s  speed  share  loss             val_right        weights",
        "one device        1          5   1.00      -  0.3000 ± 0.0141  0.6000 ± 0.1414        -",
        "cadence           2         10   2.00   0.85  0.3200 ± 0.0283  0.7000 ± 0.1414     0.02",
    ]


def test_table_with_a_loss_that_is_not_finite_shows_it():
    found = PolicyComparison((run("sync"), run("sync", 1, loss=math.nan)))
    assert "nan" in str(found)
    assert str(found).splitlines()[1].split() == ["sync", "2", "10", "-", "-", "nan", "-"]


def test_runs_of_a_policy_that_was_not_compared_names_the_others():
    found = PolicyComparison((run("sync"),))
    with pytest.raises(KeyError, match="'cadence' was not compared; there are sync"):
        found.of("cadence")


def test_comparison_as_json_has_each_run():
    found = PolicyComparison((run("sync", scalars={"a": 1.0}),))
    assert json.loads(found.to_json()) == [
        {
            "policy": "sync", "devices": 2, "seed": 0, "seconds": 1.0, "steps": 10, "loss": 0.5,
            "scalars": {"a": 1.0}, "share_of_ideal": 0.0, "distance": 0.0,
        }
    ]  # fmt: skip
