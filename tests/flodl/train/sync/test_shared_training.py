"""Trainings on several processes: the numbers of one, whatever happens to the ranks."""

import os
import signal
import subprocess
import sys
import threading

import pytest
import torch

from flodl import DeviceError, Interrupted, TrainingError
from flodl.distributed import ApplyPolicy
from flodl.distributed.team import TeamError, WorkerError
from tests.flodl.train.sync import shared_jobs
from tests.flodl.train.sync.shared_jobs import Faulty, builder, digest

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]


@pytest.fixture(scope="module")
def alone():
    """The state of one device, by batches per update."""
    return {
        accumulate: builder(1, accumulate=accumulate).run().join() for accumulate in (1, 3, 4, 7)
    }


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("accumulate", [1, 3, 7])
def test_bits_are_those_of_one_device_for_any_number_of_ranks(alone, ranks, accumulate):
    state = builder(ranks, accumulate=accumulate).run().join()
    assert digest(state) == digest(alone[accumulate])
    for own, wanted in zip(state.history, alone[accumulate].history, strict=True):
        assert own.scalars == wanted.scalars
    assert sum(each.batches for each in state.history[0].per_rank) == 20


def test_everything_of_a_training_has_the_same_bits_on_two_ranks():
    def configured(devices):
        made = builder(devices, accumulate=4, epochs=3).max_grad_norm(0.5).ema(0.9)
        made = made.precision("bf16").evaluate(shared_jobs.data(), batch_size=32)
        return made.scheduler(schedule).early_stop("val_loss", patience=1, minimum=100.0)

    one, two = configured(1).run().join(), configured(2).run().join()
    assert digest(two) == digest(one)
    assert two.stopped_by == one.stopped_by
    assert "early stop" in two.stopped_by
    assert [each.scalars for each in two.history] == [each.scalars for each in one.history]
    assert all(torch.equal(two.averages[name], one.averages[name]) for name in one.averages)


def test_recorded_scalars_are_those_of_all_batches():
    plain = builder(None, model=shared_jobs.plain_net, train=shared_jobs.recording).run().join()
    one, two = (
        builder(ranks, model=shared_jobs.plain_net, train=shared_jobs.recording)
        .evaluate(shared_jobs.data(), batch_size=32)
        .run()
        .join()
        for ranks in (1, 2)
    )
    assert one.history[-1].scalars == two.history[-1].scalars
    for own, wanted in zip(two.history, plain.history, strict=True):
        assert own.scalars["own"] == pytest.approx(wanted.scalars["own"], rel=1e-4)
    assert two.history[-1].scalars["val_own"] > 0.0


def schedule(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def test_sum_is_equal_to_a_plain_training_up_to_rounding():
    plain = builder(None, model=shared_jobs.plain_net).run().join()
    shared = builder(2, exact="sum", model=shared_jobs.plain_net).run().join()
    for name, each in plain.parameters.items():
        torch.testing.assert_close(shared.parameters[name], each, rtol=1e-5, atol=1e-6)
    assert shared.history[-1].avg_loss == pytest.approx(plain.history[-1].avg_loss, rel=1e-5)


def test_parameter_without_gradient_is_left_alone_as_in_a_plain_training():
    plain = builder(None, model=shared_jobs.partly_used, optimizer=decaying).run().join()
    shared = (
        builder(2, exact="sum", model=shared_jobs.partly_used, optimizer=decaying).run().join()
    )
    assert torch.equal(shared.parameters["unused.weight"], plain.parameters["unused.weight"])
    torch.testing.assert_close(
        shared.parameters["used.weight"], plain.parameters["used.weight"], rtol=1e-5, atol=1e-6
    )


def decaying(parameters):
    return torch.optim.AdamW(parameters, 1e-2, weight_decay=0.5)


@pytest.mark.parametrize(("rank", "calls"), [(0, 1), (0, 9), (1, 4)])
def test_killed_rank_changes_no_bit(alone, tmp_path, rank, calls):
    train = Faulty(rank, calls, "kill", tmp_path)
    state = builder(3, train=train).run_dir(tmp_path / "run").run().join()
    assert (tmp_path / "fault").read_text() == str(rank)
    assert digest(state) == digest(alone[4])
    assert [each.avg_loss for each in state.history] == [
        each.avg_loss for each in alone[4].history
    ]


def test_stopped_rank_is_left_out_and_changes_no_bit(alone, tmp_path):
    train = Faulty(1, 3, "stop", tmp_path)
    state = builder(2, train=train).patience(2.0).run_dir(tmp_path / "run").run().join()
    assert (tmp_path / "fault").exists()
    assert digest(state) == digest(alone[4])


@pytest.mark.parametrize("later", [1, 2])
def test_resume_with_another_number_of_ranks_has_the_bits_of_an_uninterrupted_run(
    alone, tmp_path, later
):
    run = tmp_path / "run"
    first = builder(3, accumulate=7).run_dir(run).max_steps(14).run().join()
    assert (first.steps, first.stopped_by) == (14, "max_steps=14")
    second = builder(later, accumulate=7).run_dir(run).resume("auto").run().join()
    assert second.steps == 40
    assert digest(second) == digest(alone[7])


def test_unfinished_update_at_the_end_of_an_epoch_travels_in_the_checkpoint(alone, tmp_path):
    run = tmp_path / "run"
    builder(2, accumulate=7, epochs=1).run_dir(run).run().join()  # 20 units: 6 are pending
    state = builder(3, accumulate=7).run_dir(run).resume("auto").run().join()
    assert digest(state) == digest(alone[7])


def test_plain_training_continues_what_ranks_began(tmp_path):
    model, run = shared_jobs.plain_net, tmp_path / "run"
    wanted = builder(None, model=model, epochs=2).run().join()
    builder(2, exact="sum", model=model, epochs=1).run_dir(run).run().join()
    state = builder(None, model=model, epochs=2).run_dir(run).resume("auto").run().join()
    for name, each in wanted.parameters.items():
        torch.testing.assert_close(state.parameters[name], each, rtol=1e-5, atol=1e-6)


def test_lists_and_torch_loaders_and_iterables_have_the_same_bits_on_two_ranks():
    inputs, wanted = shared_jobs.data()
    pairs = list(zip(inputs.split(8), wanted.split(8), strict=True))
    dataset = torch.utils.data.TensorDataset(inputs, wanted)
    loader = torch.utils.data.DataLoader(dataset, 8, shuffle=True)
    for batches in (pairs, loader, Repeated(pairs)):
        one = builder(1, batches=batches).run().join()
        two = builder(2, batches=batches).run().join()
        assert digest(one) == digest(two)
        assert one.steps == two.steps == 40


class Repeated:
    """Batches that can only be read from their beginning."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        for inputs, wanted in self._batches:
            yield inputs + 0.1 * torch.randn_like(inputs), wanted


def test_stop_on_one_rank_ends_all_at_the_same_update(tmp_path):
    made = builder(2, epochs=50).run_dir(tmp_path / "run")
    state = made.on("step", shared_jobs.StopOn(1, 30)).run().join()
    assert state.stopped_by == "a rank saw enough"
    assert state.steps % 4 == 0
    assert state.checkpoint is not None


def test_error_on_a_rank_names_it_and_its_log(tmp_path):
    train = Faulty(1, 2, "raise", tmp_path)
    with pytest.raises(WorkerError, match="rank 1 failed with ValueError: this batch") as found:
        builder(2, train=train).run_dir(tmp_path / "run").run().join()
    assert "in batch" in found.value.log.read_text()


def test_run_returns_at_once_and_tells_epochs_as_they_end(tmp_path):
    told = []
    handle = builder(2, epochs=3).metrics_fn(told.append).run()
    assert handle.world_size() == 2
    assert handle.devices() == (torch.device("cpu"), torch.device("cpu"))
    first = handle.next_metrics()
    assert (first.epoch, len(first.per_rank)) == (0, 2)
    state = handle.join()
    assert [each.epoch for each in told] == [0, 1, 2]
    assert [handle.next_metrics().epoch, handle.next_metrics().epoch] == [1, 2]
    assert handle.next_metrics() is None
    assert 0.0 < state.history[-1].share_of_ideal <= 1.0


def test_models_that_differ_between_ranks_are_refused(tmp_path):
    with pytest.raises(WorkerError, match="made another model than rank 0"):
        builder(2, model=UnlikeModel()).run().join()


class UnlikeModel:
    def __call__(self):
        model = shared_jobs.plain_net()
        # A clock would not do: after ten days, float32 holds it only to 1/16 s.
        torch.nn.init.constant_(model[0].bias, os.getpid())
        return model


def test_sync_batch_norm_is_refused():
    with pytest.raises(TrainingError, match="`1` is a SyncBatchNorm"):
        builder(1, model=sync_net).run()


def sync_net():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.SyncBatchNorm(8))


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda: builder(None).policy("asynchronous"), "no policy 'asynchronous'; use"),
        (lambda: builder(None).policy(ApplyPolicy.Async, exact="sum"), "policy async averages"),
        (lambda: builder(None).policy("cadence", exact="bits"), "a choice of policy sync"),
        (lambda: builder(1).guard(0.1).run(), "guard: settings of policy cadence"),
        (lambda: builder(None).guard(0.0), "the threshold is 0.0"),
        (lambda: builder(None).outer(0.7, momentum=1.0), "momentum from 0 to below 1"),
        (lambda: builder(None).policy("sync", exact="all"), "got 'all'"),
        (lambda: builder(1).step("compiled").run(), "captures the update together"),
    ],
)
def test_impossible_settings_are_said(prepare, said):
    with pytest.raises(TrainingError, match=said):
        prepare()


def test_object_that_cannot_travel_is_named():
    lock = threading.Lock()

    def train(model, batch):
        with lock:
            return shared_jobs.loss_of(model, batch)

    with pytest.raises(TeamError, match="`lock`, which the train function uses, a lock, cannot"):
        builder(2, train=train).run()


def test_devices_that_are_not_there_are_said():
    with pytest.raises(DeviceError, match="names no device"):
        builder(None).devices(0)
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="torch sees no GPU"):
            builder(None).devices(["cuda:0", "cuda:1"])


def test_fewer_batches_per_update_than_ranks_are_noticed():
    state = builder(2, accumulate=1, epochs=1).run().join()
    assert any("use .accumulate(2) or more" in line for line in state.notices)


SCRIPT = """
import sys, torch
from flodl import Trainer

def train(model, batch):
    return (model(batch) - 1).square().mean()

(
    Trainer.builder(lambda: torch.nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.01), train)
    .dataset([torch.ones(4, 2)] * 8).num_epochs(100_000).accumulate(2).seed(0)
    .devices(2).policy("sync").run_dir(sys.argv[1]).progress(False)
    .metrics_fn(lambda metrics: print("trains", flush=True)).run().join()
)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_all_ranks_with_one_checkpoint(tmp_path, number):
    script = tmp_path / "train.py"  # no main guard, and functions of the script itself
    script.write_text(SCRIPT)
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, str(script), str(run)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "trains\n"
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    process.stdout.close()
    assert list((run / "checkpoints").iterdir())


def test_interrupted_training_is_returned_if_asked(tmp_path):
    made = builder(2, epochs=100_000).run_dir(tmp_path / "run").on_signal("exit")
    handle = made.run()
    handle.next_metrics()
    handle._running._pass_on()
    with pytest.raises(Interrupted) as found:
        handle.join()
    assert found.value.code == 128 + signal.SIGTERM
    assert found.value.state.stopped_by == "SIGTERM"
