"""Trainings on a GPU: the loop written by hand, recorded steps, half precision, and a GPU beside the CPU.

loss on "cuda" == loss of the loop by hand on "cuda"      to the bit, also after a resume
loss on ["cuda:0", "cpu"] ~ loss on "cpu"                 unlike devices round differently
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl import Trainer
from tests.flodl.train.small_training import BATCHES, builder, equal, sgd, train_step
from tests.flodl.train.sync import shared_jobs

pytestmark = [pytest.mark.torch, pytest.mark.gpu]
ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).parent / "sync" / "started_script.py"
ON_GPU = [(x.cuda(), y.cuda()) for x, y in BATCHES] if torch.cuda.is_available() else []


def loop_on_gpu(epochs):
    """Return the losses and the model of the loop by hand, with the generators seeded as the trainer does."""
    torch.manual_seed(0)
    model = wide().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
    losses = []
    for _ in range(epochs):
        for x, y in ON_GPU:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def wide():
    return nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))


def on_gpu(**more):
    return builder(data=BATCHES, model=wide, **more).device("cuda")


def test_trainer_takes_the_gpu_by_default():
    made = Trainer.builder(wide, sgd, train_step).dataset(BATCHES).progress(False)
    assert made.run().devices() == (torch.device("cuda"),)


def test_losses_on_gpu_equal_those_of_the_loop_by_hand():
    model, losses = loop_on_gpu(3)
    handle = on_gpu().num_epochs(3).run()
    state = handle.join()
    per_epoch = [sum(losses[i : i + 5]) / 5 for i in range(0, 15, 5)]
    assert [each.avg_loss for each in state.history] == pytest.approx(per_epoch, rel=1e-6)
    assert equal(state, model.cpu())


def test_training_on_gpu_goes_on_after_a_stop_to_the_bit(tmp_path):
    whole = on_gpu().num_epochs(4).run().join()
    on_gpu().num_epochs(2).run_dir(tmp_path / "run").run().join()
    resumed = on_gpu().num_epochs(4).run_dir(tmp_path / "run").resume("auto").run().join()
    assert all(
        torch.equal(each, resumed.parameters[name]) for name, each in whole.parameters.items()
    )


def test_dropout_on_gpu_is_the_same_after_a_resume(tmp_path):
    made = builder().device("cuda")
    whole = made.num_epochs(4).run().join()
    builder().device("cuda").num_epochs(2).run_dir(tmp_path / "run").run().join()
    again = builder().device("cuda").num_epochs(4).run_dir(tmp_path / "run").resume("auto")
    resumed = again.run().join()
    assert all(
        torch.equal(each, resumed.parameters[name]) for name, each in whole.parameters.items()
    )


@pytest.mark.parametrize("mode", ["graph", "auto"])
def test_recorded_steps_train_as_eager_ones(mode):
    found = []
    for chosen in (mode, "eager"):
        state = on_gpu().step(chosen).num_epochs(40).run().join()
        found.append(state)
    one, other = found
    for name, each in other.parameters.items():
        torch.testing.assert_close(one.parameters[name], each, rtol=1e-4, atol=1e-6)
    assert [each.avg_loss for each in one.history] == pytest.approx(
        [each.avg_loss for each in other.history], rel=1e-4
    )


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_half_precision_trains(kind):
    state = on_gpu().precision(kind).num_epochs(20).run().join()
    losses = [each.avg_loss for each in state.history]
    assert losses[-1] < losses[0] / 2


def job(policy, devices, **more):
    made = shared_jobs.builder(None, epochs=3, **more).policy(policy)
    return made.devices(devices).run().join()


def test_sync_of_gpu_and_cpu_is_one_device_up_to_rounding():
    alone = (
        shared_jobs.builder(1, model=shared_jobs.plain_net, epochs=3).device("cpu").run().join()
    )
    both = job("sync", ["cuda:0", "cpu"], model=shared_jobs.plain_net)
    for name, each in alone.parameters.items():
        torch.testing.assert_close(both.parameters[name].cpu(), each.cpu(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["full", "bf16"])
def test_cadence_of_gpu_and_cpu_trains_every_batch(precision):
    made = shared_jobs.builder(None, epochs=6).policy("cadence").devices(["cuda:0", "cpu"])
    state = (made if precision == "full" else made.precision("bf16")).run().join()
    assert state.history[-1].avg_loss < state.history[0].avg_loss
    assert {each.steps for each in state.history} == {shared_jobs.SAMPLES // shared_jobs.BATCH}


@pytest.mark.parametrize("policy", ["sync", "cadence"])
def test_two_processes_of_torchrun_share_one_gpu(tmp_path, policy):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", str(SCRIPT), str(tmp_path)], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
             "TEST_POLICY": policy}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / f"digest-{rank}").read_text() for rank in (0, 1))
    assert first == second
    assert first.endswith(" 2")


def test_cadence_records_the_steps_of_its_gpu():
    made = shared_jobs.builder(None, model=shared_jobs.plain_net, epochs=30).accumulate(1)
    state = made.policy("cadence").devices(["cuda:0", "cpu"]).step("auto").run().join()
    assert state.history[-1].avg_loss < state.history[0].avg_loss / 2
