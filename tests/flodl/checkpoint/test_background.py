"""Saving beside training: snapshots share nothing, and no failure gets lost."""

import io
import threading
import time

import pytest
import torch
from torch import nn

from flodl.checkpoint.background import CpuWorker, snapshot_cpu
from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.store import load
from tests.flodl.checkpoint.samples import net, same

pytestmark = pytest.mark.torch


def test_a_snapshot_is_not_touched_by_further_training(tmp_path):
    model = net()
    kept = net()
    snapshot = snapshot_cpu(model, metrics={"loss": 0.25}, epoch=3)
    with torch.no_grad():
        for each in model.parameters():
            each.add_(1.0)
    with CpuWorker() as worker:
        worker.submit(lambda: snapshot.save(tmp_path / "m.fdl"))
    found = net(seed=9)
    report = load(found, tmp_path / "m.fdl")
    assert same(found, kept)
    assert report.architecture
    metadata = open_contents(tmp_path / "m.fdl").metadata
    assert (metadata["fdl.epoch"], metadata["metric.loss"]) == ("3", "0.25")


def test_a_snapshot_keeps_what_is_tied():
    model = nn.ModuleDict({"a": nn.Linear(50, 50, bias=False), "b": nn.Linear(50, 50, bias=False)})
    model["b"].weight = model["a"].weight
    stream = io.BytesIO()
    snapshot_cpu(model).save(stream)
    assert len(open_contents(io.BytesIO(stream.getvalue())).entries()) == 1


def test_tasks_run_in_order_in_another_thread():
    seen = []
    with CpuWorker() as worker:
        for index in range(20):
            worker.submit(
                lambda index=index: seen.append((index, threading.current_thread().name))
            )
    assert [index for index, _ in seen] == list(range(20))
    assert {name for _, name in seen} == {"flodl-cpu-worker"}


def test_idle_means_nothing_runs_and_nothing_waits():
    gate = threading.Event()
    worker = CpuWorker()
    assert worker.is_idle()
    worker.submit(gate.wait)
    worker.submit(lambda: None)
    assert not worker.is_idle()
    gate.set()
    deadline = time.monotonic() + 5
    while not worker.is_idle() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert worker.is_idle()
    worker.finish()
    worker.finish()


def test_errors_are_raised_where_somebody_waits(tmp_path):
    def fail():
        raise OSError("disk")

    worker = CpuWorker()
    worker.submit(fail)
    done = []
    worker.submit(lambda: done.append(1))
    with pytest.raises(OSError, match="disk"):
        worker.finish()
    assert done == [1]
    with pytest.raises(RuntimeError, match="finished"):
        worker.submit(fail)


def test_a_later_submit_reports_the_error():
    def fail():
        raise OSError("disk")

    with CpuWorker() as worker:
        worker.submit(fail)
        while not worker.is_idle():
            time.sleep(0.001)
        with pytest.raises(OSError, match="disk"):
            worker.submit(fail)
