"""Requests to a training on several devices, which all ranks serve after the same window."""

import os
import signal
import time

import pytest
import torch

from flodl import RunDirectory, TrainingError, load_checkpoint
from tests.flodl.train.sync import shared_jobs
from tests.flodl.train.sync.shared_jobs import (
    Awaiting,
    builder,
    data,
    digest,
    loss_of,
    net,
    wait_for,
)

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]
EPOCHS = 60
NEVER = 9  # a rank that does not come: the training is slow until the test lets it go on


class Page:
    """A monitor whose page has buttons."""

    def __init__(self):
        self.clicks, self.steps, self.events = [], [], []

    def requests(self):
        clicks, self.clicks = self.clicks, []
        return tuple(clicks)

    def record(self, step, values):
        self.steps.append((step, dict(values)))

    def event(self, kind, line):
        self.events.append((kind, line))

    def __getattr__(self, name):
        return lambda *_: None


@pytest.fixture(scope="module")
def alone():
    return digest(builder(1, epochs=EPOCHS).run().join())


def begun(folder, ranks=2, policy="sync", **options):
    made = builder(ranks, epochs=EPOCHS, train=Awaiting(folder, NEVER), **options)
    made = made.on("start", made._train_fn.note_rank).run_dir(folder / "run")
    return made.evaluate(data(), loss_of, batch_size=40, every=EPOCHS)


def let_go(folder):
    (folder / f"trained-{NEVER}").touch()


def saved(folder):
    return [each.step for each in RunDirectory.open(folder / "run").checkpoints.entries()]


def loss_at(path):
    """Return the loss of a checkpoint, as an evaluation would."""
    model = net()
    load_checkpoint(path, model)
    model.eval()
    with torch.no_grad():
        losses = [
            loss_of(model, [each[at : at + 40] for each in data()])[0].item()
            for at in range(0, shared_jobs.SAMPLES, 40)
        ]
    return sum(losses) / len(losses)


def test_requests_are_done_on_all_ranks_and_change_no_bit(alone, tmp_path):
    handle = begun(tmp_path).run()
    handle.request_checkpoint()
    handle.request_eval()
    (report,) = wait_for(handle.evaluations)
    assert report.epoch == 0
    (entry,) = RunDirectory.open(tmp_path / "run").checkpoints.entries()
    assert entry.step == report.step < 20
    assert report.scalars["val_loss"] == pytest.approx(loss_at(entry.path), rel=1e-6)
    let_go(tmp_path)
    state = handle.join()
    assert digest(state) == alone
    assert handle.evaluations() == [report]
    assert ["val_loss" in each.scalars for each in state.history] == [False] * (EPOCHS - 1) + [
        True
    ]


def test_request_is_done_although_the_first_rank_dies(alone, tmp_path):
    handle = begun(tmp_path, 3).run()
    handle.request_eval()
    wait_for(handle.evaluations)
    handle.request_eval()
    handle.request_checkpoint()
    os.kill(handle.pids()[0], signal.SIGKILL)
    wait_for(handle.evaluations, 2)
    wait_for(lambda: saved(tmp_path))
    let_go(tmp_path)
    assert digest(handle.join()) == alone
    assert len(handle.evaluations()) == 2


def test_rank_that_joins_does_no_earlier_request_again(alone, tmp_path):
    handle = begun(tmp_path).run()
    handle.request_eval()
    wait_for(handle.evaluations)
    number = handle.add_rank("cpu")
    wait_for(lambda: has_joined(handle, number))
    handle.request_eval()
    wait_for(handle.evaluations, 2)
    let_go(tmp_path)
    state = handle.join()
    assert digest(state) == alone
    assert number in {each.rank for each in state.history[-1].per_rank if each.batches}
    assert len(handle.evaluations()) == 2


def has_joined(handle, number):
    handle.poll_metrics()
    return [number] if not handle._running._handle.is_newcomer(number) else []


def test_page_pauses_and_stops_all_ranks(tmp_path):
    page = Page()
    handle = begun(tmp_path).monitor(page).run()
    page.clicks += ["evaluate"]
    (report,) = wait_for(handle.evaluations)
    assert (report.step, dict(report.scalars)) in page.steps
    assert ("evaluation", str(report)) in page.events
    page.clicks += ["pause"]
    handle.poll_metrics()
    time.sleep(2.0)
    handle.poll_metrics()
    before = len(page.steps)
    time.sleep(1.0)
    handle.poll_metrics()
    assert len(page.steps) == before
    assert handle._running.is_running()
    page.clicks += ["save"]
    wait_for(lambda: handle.evaluations() and saved(tmp_path))
    step = saved(tmp_path)[0]
    page.clicks += ["stop"]
    state = handle.join()
    assert state.stopped_by == "a request on the page of the monitor"
    assert step < state.steps < EPOCHS * 20
    assert saved(tmp_path)[-1] == state.steps


def test_pause_of_all_ranks_ends_by_a_signal(tmp_path):
    page = Page()
    handle = begun(tmp_path).monitor(page).on_signal("return").run()
    page.clicks += ["evaluate", "pause"]
    wait_for(handle.evaluations)
    os.kill(handle.pids()[1], signal.SIGTERM)
    state = handle.join()
    assert state.stopped_by == "SIGTERM"
    assert saved(tmp_path)[-1] == state.steps


def test_request_after_the_end_is_refused(tmp_path):
    let_go(tmp_path)
    handle = begun(tmp_path).run()
    handle.join()
    with pytest.raises(TrainingError, match=r"a checkpoint cannot be had .* ask before it ends"):
        handle.request_checkpoint()


def test_request_without_an_evaluation_says_what_is_missing(tmp_path):
    page = Page()
    made = builder(2, epochs=EPOCHS, train=Awaiting(tmp_path, NEVER)).run_dir(tmp_path / "run")
    handle = made.monitor(page).run()
    handle.request_eval()
    handle.request_checkpoint()
    wait_for(lambda: saved(tmp_path))
    let_go(tmp_path)
    handle.join()
    log = (tmp_path / "run" / "rank-0.log").read_text()
    assert "no evaluation on request: the training has no evaluation: add .evaluate(DATA)" in log
