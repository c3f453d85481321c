"""Ranks that join a running training by averages: each batch is still in the weights once per epoch."""

import signal

import pytest

from flodl.nn.schedulers import CosineScheduler
from tests.flodl.train.cadence import window_jobs
from tests.flodl.train.cadence.test_cadence_training import (
    require_each_batch_once,
    require_equal_ends,
)
from tests.flodl.train.cadence.window_jobs import builder, counting_loss
from tests.flodl.train.sync.shared_jobs import Awaiting

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]
EPOCHS = 12
POLICIES = ("cadence", "async")


def begun(folder, policy, awaited=2, **acts):
    train = Awaiting(folder, awaited, loss=counting_loss, **acts)
    made = builder(folder, 2, train=train, epochs=EPOCHS).policy(policy)
    return made.run_dir(folder / "run")


def batches_of(metrics):
    return {each.rank: each.batches for each in metrics.per_rank}


def require_whole_history(state):
    assert [each.epoch for each in state.history] == list(range(EPOCHS))
    assert all(sum(batches_of(each).values()) == window_jobs.BATCHES for each in state.history)


@pytest.mark.parametrize("policy", POLICIES)
def test_added_rank_joins_and_each_batch_is_there_once(tmp_path, policy):
    handle = begun(tmp_path, policy).run()
    assert set(batches_of(handle.next_metrics())) == {0, 1}
    assert handle.add_rank("cpu") == 2
    state = handle.join()
    assert batches_of(state.history[-1])[2]
    require_each_batch_once(state, EPOCHS)
    require_equal_ends(tmp_path, range(3))
    require_whole_history(state)


def test_added_rank_has_the_rates_of_the_ranks_that_began(tmp_path):
    made = begun(tmp_path, "cadence").lr_scale_ratio(1.0)
    handle = made.on("step", window_jobs.Rates(tmp_path)).run()
    handle.next_metrics()
    handle.add_rank("cpu")
    handle.join()
    lines = [(tmp_path / f"rates-{rank}").read_text().split()[1::2] for rank in range(3)]
    assert {round(float(each), 6) for rates in lines for each in rates} == {2e-2}


@pytest.mark.parametrize("policy", POLICIES)
def test_respawned_rank_trains_in_place_of_a_killed_one(tmp_path, policy):
    made = begun(tmp_path, policy, acts={1: (9, signal.SIGKILL)}).respawn(1)
    state = made.run().join()
    assert (tmp_path / "fault-1").exists()
    assert set(batches_of(state.history[-1])) == {0, 2}
    require_each_batch_once(state, EPOCHS)
    require_equal_ends(tmp_path, [0, 2])


@pytest.mark.parametrize("policy", POLICIES)
def test_newcomer_continues_when_all_others_die(tmp_path, policy):
    after = {0: (7, signal.SIGKILL), 1: (20, signal.SIGKILL)}
    handle = begun(tmp_path, policy, after=after).run()
    handle.add_rank("cpu")
    state = handle.join()
    assert set(batches_of(state.history[-1])) == {2}
    require_each_batch_once(state, EPOCHS)
    require_equal_ends(tmp_path, [2])
    require_whole_history(state)


def test_newcomer_follows_schedule_outer_optimizer_average_and_checkpoints(tmp_path):
    made = begun(tmp_path, "cadence").ema(0.9).outer(0.7).checkpoints(steps=100)
    made = made.scheduler(CosineScheduler(0.01, 0.0, EPOCHS * window_jobs.BATCHES), every="step")
    handle = made.run()
    handle.add_rank("cpu")
    state = handle.join()
    assert batches_of(state.history[-1])[2]
    require_each_batch_once(state, EPOCHS)
    require_equal_ends(tmp_path, range(3))
    assert state.history[-1].lr < 1e-4
    resumed = made.num_epochs(EPOCHS + 1).devices(["cpu"]).resume("auto").run().join()
    assert resumed.buffers["seen"].tolist() == [EPOCHS + 1] * window_jobs.BATCHES
