"""Trainings by policy cadence: each batch is in the weights once per epoch, whatever happens to the ranks."""

import math
import signal

import pytest
import torch

from flodl import TrainingError
from flodl.distributed import ElChe
from flodl.distributed.team import WorkerError
from flodl.nn.schedulers import CosineScheduler
from tests.flodl.train.cadence import window_jobs
from tests.flodl.train.cadence.window_jobs import Acting, builder, ends

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]


def require_each_batch_once(state, epochs):
    assert state.buffers["seen"].tolist() == [epochs] * window_jobs.BATCHES
    assert state.steps == epochs * window_jobs.BATCHES
    assert int(state.buffers["body.1.num_batches_tracked"]) == state.steps


def require_equal_ends(folder, ranks):
    assert sorted(ends(folder)) == [f"end-{rank}" for rank in ranks]
    assert len(set(ends(folder).values())) == 1


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_train_each_batch_once_and_end_equal(tmp_path, ranks):
    state = builder(tmp_path, ranks).run().join()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, range(ranks))
    numbers = sum(range(window_jobs.BATCHES)) / window_jobs.BATCHES
    assert state.history[0].scalars["number"] == pytest.approx(numbers)
    assert sum(each.batches for each in state.history[0].per_rank) == window_jobs.BATCHES
    assert 0.0 < state.history[0].share_of_ideal <= 1.0


def test_default_policy_of_several_devices_learns_as_one_device(tmp_path):
    made = builder(tmp_path, None, epochs=20)
    one = made.run().join()
    many = builder(tmp_path, 2, epochs=20).run().join()
    assert "averaged by cadence" in many.decision
    assert many.history[-1].avg_loss < 1.5 * one.history[-1].avg_loss


def test_one_device_takes_the_path_without_a_policy(tmp_path):
    made = builder(tmp_path, None).device("cpu")
    plain = made.run().join()
    one = builder(tmp_path, None).devices(["cpu"]).policy("cadence").run().join()
    assert all(
        torch.equal(one.parameters[name], plain.parameters[name]) for name in one.parameters
    )
    assert one.decision == plain.decision


@pytest.mark.parametrize("acts", [{0: (3, 9)}, {1: (12, 9)}, {0: (1, 9), 2: (9, 9)}])
def test_killed_ranks_leave_each_batch_once(tmp_path, acts):
    train = Acting(tmp_path, acts)
    state = builder(tmp_path, 3, train=train, epochs=3).run().join()
    assert all((tmp_path / f"fault-{rank}").exists() for rank in acts)
    require_each_batch_once(state, 3)
    require_equal_ends(tmp_path, [rank for rank in range(3) if rank not in acts])


def test_stopped_rank_is_left_out_and_each_batch_is_there_once(tmp_path):
    train = Acting(tmp_path, {1: (5, signal.SIGSTOP)})
    state = builder(tmp_path, 3, train=train).patience(2.0).run().join()
    assert (tmp_path / "fault-1").exists()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, [0, 2])


# The calls of a sum: the comparison of models, then windows; texts of the last window of an epoch are two.
@pytest.mark.parametrize("at", [2, 3, 5])
def test_half_commit_is_handed_over(tmp_path, at):
    train = window_jobs.MissedSum(at, dies=0, misses=2)
    state = builder(tmp_path, 3, train=train).run().join()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, [1, 2])


@pytest.mark.parametrize("later", [1, 2, 4])
def test_resume_in_the_middle_of_an_epoch_with_other_ranks_trains_each_batch_once(tmp_path, later):
    run = tmp_path / "run"
    train = Acting(tmp_path, {1: (15, "raise")})
    made = builder(tmp_path, 3, train=train).checkpoints(steps=5).run_dir(run)
    with pytest.raises(WorkerError, match="this batch is bad"):
        made.run().join()
    resumed = builder(tmp_path, later).run_dir(run).resume("auto")
    if later == 1:  # one device has a position, and not parts
        with pytest.raises(Exception, match="middle of an epoch with policy cadence"):
            resumed.run().join()
        return
    state = resumed.run().join()
    assert any("resumed from" in line for line in state.notices)
    require_each_batch_once(state, 2)


def test_plain_training_and_sync_continue_from_the_end_of_an_epoch(tmp_path):
    run = tmp_path / "run"
    builder(tmp_path, 2, epochs=1).run_dir(run).run().join()
    plain = builder(tmp_path, None, epochs=2).run_dir(run).resume("auto").run().join()
    require_each_batch_once(plain, 2)
    made = builder(tmp_path, None, epochs=3).devices(["cpu"] * 2).policy("sync").accumulate(2)
    require_each_batch_once(made.run_dir(run).resume("auto").run().join(), 3)
    back = builder(tmp_path, 2, epochs=4).run_dir(run).resume("auto").run().join()
    require_each_batch_once(back, 4)


def test_max_steps_end_after_exactly_so_many_batches_and_resume_trains_the_rest(tmp_path):
    run = tmp_path / "run"
    first = builder(tmp_path, 2).run_dir(run).max_steps(37).run().join()
    assert (first.steps, first.stopped_by) == (37, "max_steps=37")
    assert int(first.buffers["seen"].sum()) == 37
    require_each_batch_once(builder(tmp_path, 3).run_dir(run).resume("auto").run().join(), 2)


def test_resume_at_the_last_batch_of_an_epoch_has_its_loss(tmp_path):
    run = tmp_path / "run"
    first = builder(tmp_path, 2).run_dir(run).max_steps(window_jobs.BATCHES).run().join()
    assert (first.steps, first.history) == (window_jobs.BATCHES, ())
    state = builder(tmp_path, 3).run_dir(run).resume("auto").run().join()
    require_each_batch_once(state, 2)
    assert [each.epoch for each in state.history] == [0, 1]
    assert state.history[0].avg_loss > state.history[1].avg_loss > 0.0
    assert state.history[0].scalars["number"] >= 0.0


def test_accumulation_with_a_short_last_update_trains_each_batch_once(tmp_path):
    state = builder(tmp_path, 2).accumulate(7).run().join()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, range(2))


def test_wish_of_one_rank_ends_all_in_the_same_window(tmp_path):
    made = builder(tmp_path, 2, epochs=1000).run_dir(tmp_path / "run").on("step", StopOn(1, 80))
    state = made.run().join()
    assert state.stopped_by == "a rank saw enough"
    assert state.checkpoint is not None
    require_equal_ends(tmp_path, range(2))


class StopOn:
    def __init__(self, rank, step):
        self.rank, self.step = rank, step

    def __call__(self, training, loss):
        if training.rank == self.rank and training.step >= self.step:
            training.stop("a rank saw enough")


def test_time_limit_and_checkpoints_by_time_are_agreed_upon(tmp_path):
    made = builder(tmp_path, 2, epochs=10_000, train=Acting(tmp_path, {}))
    made = made.run_dir(tmp_path / "run").checkpoints(seconds=0.3, epochs=None, keep_last=100)
    state = made.max_seconds(2.0).run().join()
    assert state.stopped_by == "max_seconds=2"
    require_equal_ends(tmp_path, range(2))
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) > 2


def test_loss_that_is_not_finite_ends_all_and_names_the_rank(tmp_path):
    train = Acting(tmp_path, {1: (4, "nan")})
    with pytest.raises(WorkerError, match="rank 1 failed with NonFiniteError: the loss of step"):
        builder(tmp_path, 2, train=train).run().join()


def test_weights_that_are_not_finite_end_all_and_name_the_parameter(tmp_path):
    made = builder(tmp_path, 2).on("step", break_weights)
    with pytest.raises(
        WorkerError, match=r"rank 1: the weights are not finite after step"
    ) as found:
        made.run().join()
    assert "`body.0.bias`, of 1" in str(found.value)


def break_weights(training, loss):
    if training.rank == 1:  # after the only update of the first window, so that no loss shows it
        training.model.body[0].bias.data.fill_(math.inf)


def test_rank_without_finite_weights_is_left_out_for_a_window_without_the_guard(tmp_path):
    train = Acting(tmp_path, {1: (4, "nan")})
    state = (
        builder(tmp_path, 2, train=train).nan_guard(False).run_dir(tmp_path / "run").run().join()
    )
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, range(2))
    assert all(math.isfinite(each.sum()) for each in state.parameters.values())
    log = (tmp_path / "run" / "rank-1.log").read_text()
    assert "rank 1: weights were not finite" in log


def test_training_that_never_is_finite_ends_with_a_sentence(tmp_path):
    made = builder(tmp_path, 2, train=always_bad).nan_guard(False)
    with pytest.raises(WorkerError, match="no rank had finite weights in 3 windows"):
        made.run().join()


def always_bad(model, batch):
    loss, metrics = window_jobs.counting_loss(model, batch)
    return loss * float("nan"), metrics


def test_schedule_ends_where_the_epochs_end(tmp_path):
    schedule = CosineScheduler(1e-2, 1e-4, 2 * window_jobs.BATCHES)
    made = builder(tmp_path, 2).scheduler(schedule).on("step", window_jobs.Rates(tmp_path))
    made.run().join()
    for rank in range(2):
        lines = (tmp_path / f"rates-{rank}").read_text().splitlines()
        updates = [int(line.split()[0]) for line in lines]
        rates = [float(line.split()[1]) for line in lines]
        assert updates == sorted(updates)
        assert updates[-1] < 2 * window_jobs.BATCHES
        assert rates[0] == pytest.approx(1e-2, rel=1e-3)
        for update, rate in zip(updates, rates, strict=True):
            assert rate == pytest.approx(schedule.lr(update))


def test_schedule_of_torch_moves_by_the_updates_of_all_ranks(tmp_path):
    made = builder(tmp_path, 2).scheduler(falling, every="step")
    assert made.run().join().history[-1].lr == pytest.approx(1e-2 * 0.99**120, rel=1e-6)


def falling(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)


def test_rates_grow_with_the_ranks_and_follow_their_number_after_a_resume(tmp_path):
    run, schedule = tmp_path / "run", CosineScheduler(0.1, 0.1, 1)

    def trained(ranks, epochs, **options):
        folder = tmp_path / f"{ranks}-{epochs}"
        folder.mkdir()
        made = builder(tmp_path, ranks, epochs=epochs).run_dir(run).resume("auto")
        made.on("step", window_jobs.Rates(folder)).lr_scale_ratio(0.5)
        if options:
            made.scheduler(**options)
        made.run().join()
        lines = [each.read_text().split() for each in folder.glob("rates-*")]
        assert len(lines) == (ranks or 1)
        return sorted({round(float(each), 6) for rates in lines for each in rates[1::2]})

    assert trained(2, 1) == [1.5e-2]
    assert trained(3, 2) == [2e-2]
    assert trained(2, 3, scheduler=schedule) == [0.15]
    assert trained(None, 4, scheduler=schedule) == [0.1]


def test_averages_evaluation_outer_optimizer_and_mixed_precision_work_together(tmp_path):
    made = builder(tmp_path, 2, epochs=3).ema(0.9).precision("bf16").max_grad_norm(1.0)
    made = made.outer(0.7, 0.5).evaluate(window_jobs.data(), evaluation).guard(0.2)
    state = made.run().join()
    require_equal_ends(tmp_path, range(2))
    assert state.averages.keys() == state.parameters.keys()
    assert 0.0 < state.history[-1].scalars["val_loss"] < state.history[0].avg_loss


def evaluation(model, batch):
    inputs, wanted, _ = batch
    return torch.nn.functional.mse_loss(model.body(inputs), wanted)


def test_scale_of_losses_is_the_least_of_all_ranks(tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    state = builder(tmp_path, 2).scaler(scaler).run().join()
    require_each_batch_once(state, 2)
    require_equal_ends(tmp_path, range(2))


def test_compiled_steps_train_each_batch_once(tmp_path):
    made = builder(tmp_path, 2, train=plain_loss, epochs=2).step("compiled")
    state = made.run().join()
    assert "compiled" in state.decision
    assert state.steps == 2 * window_jobs.BATCHES
    assert int(state.buffers["body.1.num_batches_tracked"]) == state.steps
    require_equal_ends(tmp_path, range(2))


def plain_loss(model, batch):
    inputs, wanted, _ = batch
    return torch.nn.functional.mse_loss(model.body(inputs), wanted)


def test_rank_that_becomes_slow_is_cut_off(tmp_path):
    train = window_jobs.SlowFrom(20, 0.05)
    state = builder(tmp_path, 2, train=train, epochs=2).run().join()
    require_each_batch_once(state, 2)
    fast, slow = state.history[-1].per_rank
    assert fast.batches > 2 * slow.batches


def test_fixed_shares_of_el_che_decide_the_parts(tmp_path):
    state = builder(tmp_path, 2).el_che(ElChe(max_anchor=2).partition([3, 1])).run().join()
    first, second = state.history[0].per_rank
    assert first.batches == pytest.approx(45, abs=3)
    assert second.batches == pytest.approx(15, abs=3)


class Recorder:
    """A monitor that keeps what it is told."""

    def __init__(self):
        self.steps, self.epochs, self.events, self.finished = [], [], [], False

    def record(self, step, values):
        self.steps.append((step, values))

    def log(self, epoch, elapsed, metrics):
        self.epochs.append(epoch)

    def event(self, kind, message):
        self.events.append((kind, message))

    def watch(self, model):
        pass

    def flush(self):
        pass

    def finish(self):
        self.finished = True


def test_monitor_is_told_windows_and_deaths(tmp_path):
    monitor = Recorder()
    train = Acting(tmp_path, {1: (25, 9)})
    builder(tmp_path, 3, train=train).run_dir(tmp_path / "run").monitor(monitor).run().join()
    assert monitor.epochs == [0, 1]
    assert monitor.finished
    steps = [step for step, _ in monitor.steps]
    assert steps == sorted(set(steps))
    assert steps[-1] == 2 * window_jobs.BATCHES
    _, last = monitor.steps[-1]
    assert last["team/size"] == 2.0
    assert {"loss", "team/anchor", "team/share", "rank0/busy", "rank2/wait"} <= last.keys()
    assert [kind for kind, _ in monitor.events] == ["rank"]
    assert monitor.events[0][1].startswith("rank 1 died; 2 ranks go on (")


def test_guard_shortens_the_windows_of_ranks_that_drift(tmp_path):
    anchors = {}
    for threshold in (1e-9, 1e9):
        folder = tmp_path / str(threshold)
        folder.mkdir()
        windows = window_jobs.Windows(folder)
        # One that no window reaches, so that El Che takes the longest.
        el_che = ElChe(max_anchor=8, overhead_target=1e-6)
        made = builder(folder, 2, epochs=4, train=Acting(folder, {})).el_che(el_che)
        made.guard(threshold).on("window", windows).run().join()
        reports = windows.read()
        anchors[threshold] = [each.anchor for each in reports]
        assert reports[-1].step == 4 * window_jobs.BATCHES
        assert all(0.0 < each.share_of_ideal < 1.01 for each in reports)
        # A window of one rank alone, such as the last of an epoch may be, has no drift.
        assert sum(each.drift > 0 for each in reports) > len(reports) / 2
    assert anchors[1e9][-1] >= 6
    assert anchors[1e-9][-1] <= 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made: made.dataset(iterated), "can only be read from its beginning"),
        (lambda made: made.scheduler(3), "is no schedule"),
    ],
)
def test_what_cannot_be_divided_is_said(tmp_path, change, said):
    with pytest.raises((WorkerError, TrainingError), match=said):
        change(builder(tmp_path, 2)).run().join()


def iterated():
    return iter(window_jobs.data())
