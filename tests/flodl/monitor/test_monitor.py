"""The monitor in the hands of a training loop: what it keeps, notices and writes."""

import base64
import csv
import hashlib
import io
import math
import re
import threading
import time
from datetime import timedelta

import pytest
import torch
from torch import nn

from flodl import FlowBuilder
from flodl.monitor.alerts import AlertRules
from flodl.monitor.monitor import Monitor

pytestmark = pytest.mark.torch


@pytest.fixture
def monitor():
    made = Monitor(3, quiet=True, resources=False)
    yield made
    made.finish()


def graph():
    return FlowBuilder.from_(nn.Linear(4, 8)).through(nn.ReLU()).tag("hidden").label("net").build()


# ---- recording -----------------------------------------------------------------------------------


def test_numbers_and_tensors_of_all_kinds(monitor):
    weight = torch.ones((), requires_grad=True)
    monitor.record(0, {"a": 1, "b": torch.tensor([2.0]), "c": weight * 3, "d": torch.tensor(True)})
    monitor.record(1, {"a": torch.tensor(5, dtype=torch.bfloat16)})
    monitor.flush()
    series = monitor._worker.run.series["metrics"]
    assert series["a"].window().mean == (1.0, 5.0)
    assert [series[name].window().mean for name in "bcd"] == [(2.0,), (3.0,), (1.0,)]


def test_a_value_that_changes_later_was_read_before(monitor):
    loss = torch.tensor(1.0)
    values = {"loss": loss}
    monitor.record(0, values)
    loss.add_(1)
    values["loss"] = 7.0
    monitor.flush()
    assert monitor._worker.run.series["metrics"]["loss"].window().mean == (1.0,)


def test_values_on_another_device_are_fetched_later(monitor, monkeypatch):
    # A tensor is taken for one of another device; no such device is needed to test what follows.
    monkeypatch.setattr("flodl.monitor.recording._is_here", lambda _: False)
    for step in range(5):
        monitor.record(step, {"loss": torch.tensor(float(step), requires_grad=True) * 2, "x": 1.0})
    assert any(isinstance(row[2]["loss"], torch.Tensor) for row in monitor._recorder.rows)
    assert not any(
        row[2]["loss"].requires_grad
        for row in monitor._recorder.rows
        if isinstance(row[2]["loss"], torch.Tensor)
    )
    monitor.flush()
    assert monitor._worker.run.series["metrics"]["loss"].window().mean == (0, 2, 4, 6, 8)


@pytest.mark.parametrize(
    "value", ["text", None, torch.zeros(2), torch.zeros((), dtype=torch.complex64)]
)
def test_what_is_no_number_is_refused_where_it_is_recorded(monitor, value):
    with pytest.raises(ValueError, match="'loss'"):
        monitor.record(0, {"loss": value})
    with pytest.raises(ValueError, match="'loss'"):
        monitor.log(0, 1.0, {"loss": value})


def test_nothing_is_lost_between_threads(monitor):
    def work(name):
        for step in range(2000):
            monitor.record(step, {name: float(step)})

    threads = [threading.Thread(target=work, args=(f"m{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monitor.flush()
    counts = {name: each.count for name, each in monitor._worker.run.series["metrics"].items()}
    assert counts == {f"m{i}": 2000 for i in range(4)}


def test_everything_that_can_be_logged(monitor):
    model = graph()
    model.record("inner", [0.5])
    model.flush()
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.log(1, 1.0, [("loss", torch.tensor(2.0))])
    monitor.log(2, 1.0, model)
    monitor.log(3, 1.0, (model, {"extra": 1}))
    monitor.log(4, 1.0)
    assert [dict(each.metrics) for each in monitor.history()] == [
        {"loss": 1.0}, {"loss": 2.0}, {"inner": 0.5}, {"inner": 0.5, "extra": 1.0}, {},
    ]  # fmt: skip


# ---- what it notices -----------------------------------------------------------------------------


def kinds(monitor):
    monitor.flush()
    return [each["kind"] for each in monitor._worker.run.alerts]


def test_a_loss_that_is_no_number_is_told_once(monitor):
    for step in range(10):
        monitor.record(step, {"loss": math.nan if step > 4 else 1.0})
    monitor.flush()
    monitor.record(10, {"loss": math.inf})
    assert kinds(monitor) == ["nan"]
    assert monitor._worker.run.alerts[0]["message"] == "loss is nan at step 5"
    monitor.record(11, {"loss": 1.0})
    monitor.flush()
    monitor.record(12, {"loss": math.inf})
    assert kinds(monitor) == ["nan", "nan"]


def test_a_plateau_is_told_once():
    monitor = Monitor(0, quiet=True, resources=False, alerts=AlertRules(plateau_epochs=3))
    for epoch, loss in enumerate([3, 2, 1, 1, 1, 1, 1, 1, 0.5, 0.4, 0.4, 0.4, 0.4]):
        monitor.log(epoch, 1.0, {"valid_loss": loss, "accuracy": 0.5})
    assert kinds(monitor) == ["plateau", "plateau"]
    monitor.finish()


def test_a_stall_is_told_and_so_is_its_end():
    rules = AlertRules(stall_seconds=0.2, stall_factor=1)
    monitor = Monitor(0, quiet=True, resources=False, alerts=rules)
    monitor.record(0, {"loss": 1.0})
    limit = time.monotonic() + 5
    while not monitor._worker.run.alerts and time.monotonic() < limit:
        time.sleep(0.02)
    assert kinds(monitor) == ["stall"]
    monitor.record(1, {"loss": 1.0})
    monitor.flush()
    assert [each["message"] for each in monitor._worker.run.events] == ["it goes on"]
    monitor.finish()


def test_an_alert_of_ones_own(monitor):
    monitor.event("alert", "the learning rate is strange")
    monitor.event("signal", "SIGTERM")
    assert kinds(monitor) == ["alert"]
    assert monitor._worker.run.events[0]["kind"] == "signal"


# ---- the model, the machine, the files -----------------------------------------------------------


def test_a_watched_graph_is_named_measured_and_drawn(monitor):
    model = graph()
    monitor.set_metadata({"parameters": "what the user says wins", "lr": 0.1})
    monitor.flush()
    monitor.watch_profiled(model)
    model(torch.ones(1, 4))
    monitor.log(0, 1.0, {})
    monitor.flush()
    run = monitor._worker.run
    assert run.identity["label"] == "net"
    assert len(run.identity["hash"]) == 64
    assert run.metadata == {"parameters": "what the user says wins", "lr": 0.1}
    assert "forward time" in run.picture


def test_the_last_picture_is_that_of_the_model_at_the_end(monitor, capsys):
    model = graph()
    model(torch.ones(1, 4))
    monitor.finish_with(model)
    assert monitor._worker.run.picture.startswith("<svg")
    assert "no picture" not in capsys.readouterr().out


def test_a_plain_module_has_a_name_a_size_and_a_picture(monitor):
    monitor.watch(nn.Linear(3, 2))
    monitor.log(0, 1.0, {})
    monitor.flush()
    assert monitor._worker.run.identity["label"] == "Linear"
    assert monitor._worker.run.metadata["parameters"] == {"total": 8, "trainable": 8, "frozen": 0}
    assert monitor._worker.run.picture.startswith("<svg")


def test_every_metric_has_its_own_column(monitor, tmp_path):
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.log(1, 1.0, {"loss": 0.5, "odd, name": 0.25})
    monitor.export_csv(tmp_path / "epochs.csv")
    table = [*csv.reader(io.StringIO((tmp_path / "epochs.csv").read_text()))]
    assert table == [
        ["epoch", "duration_s", "loss", "odd, name"],
        ["1", "1.000000", "1.0", ""],
        ["2", "1.000000", "0.5", "0.25"],
    ]


def test_the_log_for_people(monitor, tmp_path):
    monitor.set_identity("net", "abc")
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.write_log(tmp_path / "train.log")
    assert (tmp_path / "train.log").read_text() == (
        "# net: 1 of 3 epochs\n  epoch 1/3  loss=1.0000  [1s  ETA 2s]\n# total: 1s\n"
    )


def test_the_archive_is_written_at_the_end_or_after_it(tmp_path):
    monitor = Monitor(1, quiet=True, resources=False)
    monitor.save_html(tmp_path / "a.html")
    monitor.log(0, 1.0, {"<script>": 1.0})
    assert not (tmp_path / "a.html").exists()
    monitor.finish()
    monitor.save_html(tmp_path / "b.html")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    assert '"\\u003cscript>"' in (tmp_path / "a.html").read_text()
    monitor.finish()  # twice does no harm


@pytest.mark.slow
def test_archive_policy_runs_its_own_script_alone(tmp_path):
    monitor = Monitor(1, quiet=True, resources=False)
    monitor.set_svg(
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>1</script></svg>'
    )
    monitor.finish()
    monitor.save_html(tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    assert policy is not None
    assert text.index(policy[0]) < text.index("<script")
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    script = text[text.rindex("<script>") + 8 : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"


def test_an_archive_of_many_epochs_is_small(tmp_path):
    monitor = Monitor(0, quiet=True, resources=False)
    for epoch in range(10_000):
        monitor.log(epoch, 1.0, {"loss": 1 / (epoch + 1), "accuracy": 0.5, "lr": 1e-3})
    monitor.finish()
    monitor.save_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 5e6


@pytest.mark.gpu
def test_values_on_a_gpu_are_recorded_without_waiting_for_it():
    monitor = Monitor(0, quiet=True, resources=False)
    busy = torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    for _ in range(30):
        busy = busy @ busy
    loss = busy.sum() * 0 + 3
    began = time.perf_counter()
    monitor.record(0, {"loss": loss})
    assert time.perf_counter() - began < 1e-3
    monitor.flush()
    assert monitor._worker.run.series["metrics"]["loss"].count == 1
    monitor.finish()


def test_of_processes_that_train_together_the_first_one_keeps_and_prints(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, kept in (("0", True), ("1", False)):
        monkeypatch.setenv("RANK", rank)
        with Monitor(1, run=tmp_path / rank, resources=False) as monitor:
            monitor.log(0, 1.0, {"loss": 1.0})
            assert len(monitor.history()) == 1
        assert (tmp_path / rank).exists() is kept
        assert ("epoch 1/1" in capsys.readouterr().out) is kept


def test_log_takes_a_timedelta(monitor):
    monitor.log(0, timedelta(minutes=2, seconds=3), {"loss": 1.0})
    monitor.log(1, 4.5, {"loss": 0.5})
    assert [record.duration for record in monitor.history()] == [123.0, 4.5]
