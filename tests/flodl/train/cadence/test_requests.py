"""Requests to a training by averages: optimizer states are equal on all ranks when a request is served."""

import os
import signal

import pytest
from torch import nn

from flodl import RunDirectory
from flodl.distributed import ElChe
from tests.flodl.train.cadence import window_jobs
from tests.flodl.train.cadence.test_cadence_training import (
    require_each_batch_once,
    require_equal_ends,
)
from tests.flodl.train.cadence.window_jobs import Acting, builder, data
from tests.flodl.train.sync.shared_jobs import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]
EPOCHS = 5


def uncounted_loss(model, batch):
    inputs, wanted, _ = batch
    return nn.functional.mse_loss(model.body(inputs), wanted)


def begun(folder, policy, **acts):
    """Return a training whose windows are short, so that an epoch has many."""
    made = builder(folder, 2, train=Acting(folder, acts, seconds=0.01), epochs=EPOCHS)
    made.policy(policy).el_che(ElChe(max_anchor=2))
    made.evaluate(data(), uncounted_loss, every=EPOCHS)
    return made.run_dir(folder / "run").checkpoints(keep_last=99)


def saved(folder):
    return RunDirectory.open(folder / "run").checkpoints.entries()


@pytest.mark.parametrize("policy", ["cadence", "async"])
def test_requests_are_served_and_each_batch_is_there_once(tmp_path, policy):
    handle = begun(tmp_path, policy).run()
    within, reports = [], []
    for number in range(1, EPOCHS):  # a window may end with its epoch, the next one does not
        handle.request_checkpoint()
        handle.request_eval()
        reports = wait_for(handle.evaluations, number)
        within = [each for each in saved(tmp_path) if each.step % window_jobs.BATCHES]
        if within:
            break
    assert within
    assert within[0].step <= reports[-1].step  # served in the order of the requests
    state = handle.join()
    require_each_batch_once(state, EPOCHS)
    require_equal_ends(tmp_path, range(2))
    made = builder(tmp_path, 3, epochs=EPOCHS).policy(policy).resume(str(within[0].path))
    resumed = made.run().join()
    require_each_batch_once(resumed, EPOCHS)


@pytest.mark.parametrize("policy", ["cadence", "async"])
def test_request_is_served_although_the_first_rank_dies(tmp_path, policy):
    handle = begun(tmp_path, policy).run()
    handle.request_eval()
    wait_for(handle.evaluations)
    handle.request_eval()
    os.kill(handle.pids()[0], signal.SIGKILL)
    wait_for(handle.evaluations, 2)
    require_each_batch_once(handle.join(), EPOCHS)
    assert len(handle.evaluations()) == 2
    require_equal_ends(tmp_path, [1])
