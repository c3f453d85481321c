"""Trainings by policy async: each batch is in the weights once per epoch, also if a sum is lost."""

import math
import signal

import pytest
import torch

from flodl import RunDirectory
from flodl.distributed.team import WorkerError
from flodl.nn.schedulers import CosineScheduler
from tests.flodl.train.cadence import window_jobs
from tests.flodl.train.cadence.test_cadence_training import (
    StopOn,
    evaluation,
    require_each_batch_once,
    require_equal_ends,
)
from tests.flodl.train.cadence.window_jobs import builder, overlapped, overlaps

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]


def test_ranks_that_train_ahead_train_each_batch_once_and_end_equal(tmp_path):
    windows = window_jobs.Windows(tmp_path)
    state = overlapped(tmp_path, 3, epochs=3).on("window", windows).run().join()
    require_each_batch_once(state, 3)
    require_equal_ends(tmp_path, range(3))
    found = overlaps(tmp_path)
    assert len(found) == 3
    assert min(map(len, found.values())) > 6
    reports = windows.read()
    steps = [each.step for each in reports]
    assert steps == sorted(steps)
    assert steps[-1] == 3 * window_jobs.BATCHES
    assert len(reports) > len(
        found["overlaps-0"]
    )  # the others were added up with nothing under way
    assert state.history[-1].avg_loss < state.history[0].avg_loss
    assert sum(each.batches for each in state.history[0].per_rank) == window_jobs.BATCHES


@pytest.mark.parametrize("acts", [{0: (9, 9)}, {1: (14, 9), 2: (25, 9)}])
def test_killed_ranks_with_a_sum_under_way_leave_each_batch_once(tmp_path, acts):
    state = overlapped(tmp_path, 3, acts=acts, epochs=3).run().join()
    assert all((tmp_path / f"fault-{rank}").exists() for rank in acts)
    require_each_batch_once(state, 3)
    require_equal_ends(tmp_path, [rank for rank in range(3) if rank not in acts])


# Rank 0 dies in a sum under way, rank 1 has the sum, and rank 2 misses it.
def test_sum_under_way_that_one_rank_has_is_handed_over(tmp_path):
    train = window_jobs.MissedSum(4, dies=0, misses=2)
    state = overlapped(tmp_path, 3, train=train).run().join()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, [1, 2])


def test_stopped_rank_with_a_sum_under_way_is_left_out(tmp_path):
    made = overlapped(tmp_path, 3, acts={1: (9, signal.SIGSTOP)}).patience(2.0)
    state = made.run().join()
    assert (tmp_path / "fault-1").exists()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, [0, 2])


def test_resume_in_the_middle_of_an_epoch_with_other_ranks_and_policies_trains_each_batch_once(
    tmp_path,
):
    run = tmp_path / "run"
    made = overlapped(tmp_path, 3, acts={1: (15, "raise")}).checkpoints(steps=10).run_dir(run)
    with pytest.raises(WorkerError, match="this batch is bad"):
        made.run().join()
    for each in (tmp_path / "fault-1", *tmp_path.glob("end-*")):
        each.unlink()
    # Which epoch that was depends on how fast each rank began; the next run ends in the one after it.
    last = max(each.step for each in RunDirectory.open(run).checkpoints.entries())
    stop = (last // window_jobs.BATCHES + 1) * window_jobs.BATCHES + 7
    made = builder(tmp_path, 2, epochs=4).max_steps(stop)  # policy cadence
    first = made.run_dir(run).resume("auto").run().join()
    assert any("resumed from" in line for line in first.notices)
    assert first.steps == stop
    state = overlapped(tmp_path, 2, epochs=4).run_dir(run).resume("auto").run().join()
    require_each_batch_once(state, 4)
    require_equal_ends(tmp_path, range(2))


def test_wish_of_one_rank_ends_all_with_nothing_under_way(tmp_path):
    made = overlapped(tmp_path, 2, epochs=1000).run_dir(tmp_path / "run")
    made = made.checkpoints(seconds=0.3, epochs=None, keep_last=100).on("step", StopOn(1, 500))
    state = made.run().join()
    assert state.stopped_by == "a rank saw enough"
    assert int(state.buffers["seen"].sum()) == state.steps
    require_equal_ends(tmp_path, range(2))
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) > 1


def test_averages_outer_optimizer_schedule_and_scaled_losses_work_while_training_on(tmp_path):
    schedule = CosineScheduler(1e-2, 1e-4, 3 * window_jobs.BATCHES)
    made = overlapped(tmp_path, 2, epochs=3).ema(0.9).max_grad_norm(1.0).scheduler(schedule)
    made = made.outer(0.7, 0.5).evaluate(window_jobs.data(), evaluation).guard(0.2)
    made = made.scaler(torch.amp.GradScaler("cpu", init_scale=1024.0)).accumulate(2)
    state = made.on("step", window_jobs.Rates(tmp_path)).run().join()
    require_each_batch_once(state, 3)
    require_equal_ends(tmp_path, range(2))
    assert overlaps(tmp_path)
    assert state.averages.keys() == state.parameters.keys()
    assert 0.0 < state.history[-1].scalars["val_loss"] < state.history[0].avg_loss
    for rank in range(2):
        for line in (tmp_path / f"rates-{rank}").read_text().splitlines():
            update, rate = line.split()
            assert 0 <= int(update) < 3 * window_jobs.BATCHES // 2
            assert float(rate) == pytest.approx(schedule.lr(int(update)))


def test_rank_without_finite_weights_returns_to_the_begin_of_its_window(tmp_path):
    made = overlapped(tmp_path, 2, acts={1: (7, "nan")}).nan_guard(False)
    state = made.run_dir(tmp_path / "run").run().join()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, range(2))
    assert all(math.isfinite(each.sum()) for each in state.parameters.values())
    assert "weights were not finite" in (tmp_path / "run" / "rank-1.log").read_text()
    assert "0" in overlaps(tmp_path)["overlaps-1"]  # the window without units was under way


def test_one_device_takes_the_path_without_a_policy(tmp_path):
    plain = builder(tmp_path, None).device("cpu").run().join()
    one = builder(tmp_path, None).devices(["cpu"]).policy("async").run().join()
    assert all(
        torch.equal(one.parameters[name], plain.parameters[name]) for name in one.parameters
    )
