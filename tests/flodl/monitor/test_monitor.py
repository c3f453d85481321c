"""The monitor in the hands of a training loop: what it prints, keeps, notices and writes."""

import csv
import io
import math
import threading
import time

import pytest
import torch
from torch import nn

from flodl import FlowBuilder
from flodl.monitor.alerts import AlertRules
from flodl.monitor.eta import Eta
from flodl.monitor.monitor import Monitor
from flodl.monitor.records import EpochRecord
from flodl.monitor.wording import bytes_text, epoch_line, eta_text, finish_line

pytestmark = pytest.mark.torch

GB = 1 << 30


@pytest.fixture
def monitor():
    made = Monitor(3, quiet=True, resources=False)
    yield made
    made.finish()


def graph():
    return FlowBuilder.from_(nn.Linear(4, 8)).through(nn.ReLU()).tag("hidden").label("net").build()


def record(epoch=0, **changed):
    values = {"duration": 1.25, "metrics": {"loss": 0.5}, "resources": {}, "time": 0.0}
    return EpochRecord(epoch=epoch, **{**values, **changed})


# ---- the terminal --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "total", "line"),
    [
        (record(eta=12.0), 10, "  epoch  1/10  loss=0.5000  [1.2s  ETA 12s]"),
        (record(epoch=9, eta=0.0), 10, "  epoch 10/10  loss=0.5000  [1.2s]"),
        (record(), 0, "  epoch 1  loss=0.5000  [1.2s]"),
        (record(metrics={"a": 0, "b": 1e-4, "c": 123.456, "d": math.nan}), 0,
         "  epoch 1  a=0  b=1.00e-04  c=123.46  d=nan  [1.2s]"),
        (record(resources={"vram_used": 2.1 * GB, "vram_total": 6 * GB, "gpu": 82.0}), 0,
         "  epoch 1  loss=0.5000  [1.2s]  VRAM: 2.1/6.0 GB (82%)"),
        (record(metrics={}, resources={"cpu": 3.0}), 0, "  epoch 1  [1.2s]"),
    ],
)  # fmt: skip
def test_the_line_of_an_epoch(given, total, line):
    assert epoch_line(given, total) == line


def test_the_last_line():
    assert finish_line(90, record()) == "  training complete in 1m 30s  | loss: 0.5000"
    assert finish_line(1, None) == "  training complete in 1s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.042, "42ms"), (1.0, "1s"), (1.5, "1.5s"), (59.99, "59.9s"), (90, "1m 30s"),
     (3661, "1h 01m"), (-1, "—"), (None, "—"), (math.nan, "—")],
)  # fmt: skip
def test_durations(seconds, text):
    assert eta_text(seconds) == text


def test_bytes():
    assert [bytes_text(each) for each in (512, 2048, 5 << 20, 3 * GB)] == [
        "512 B", "2 KB", "5 MB", "3.0 GB",
    ]  # fmt: skip


def test_what_a_training_prints(capsys):
    with Monitor(2, resources=False) as monitor:
        monitor.log(0, 2.0, {"loss": 0.5})
        monitor.log(1, 2.0, {"loss": 0.25})
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "  epoch 1/2  loss=0.5000  [2s  ETA 2s]"
    assert second == "  epoch 2/2  loss=0.2500  [2s]"
    assert last.startswith("  training complete in ")
    assert last.endswith("  | loss: 0.2500")


def test_a_terminal_that_is_gone_is_no_reason_to_stop():
    stream = io.StringIO()
    stream.close()
    with Monitor(1, stream=stream, resources=False) as monitor:
        monitor.log(0, 1.0, {"loss": 1.0})
        assert len(monitor.history()) == 1


# ---- the remaining time --------------------------------------------------------------------------


def test_the_remaining_time_is_right_after_a_resume(capsys):
    with Monitor(100, resources=False) as monitor:
        monitor.log(90, 2.0, {})
    assert "[2s  ETA 18s]" in capsys.readouterr().out


def test_the_remaining_time_follows_a_change_of_speed():
    eta = Eta()
    assert eta.remaining(3) is None
    for _ in range(20):
        eta.add(10.0)
    assert eta.remaining(1) == pytest.approx(10.0)
    assert eta.spread(1) == pytest.approx(0.0)
    for _ in range(10):
        eta.add(2.0)
    assert eta.remaining(1) < 2.5
    assert eta.spread(1) > 0
    eta.add(math.nan)
    assert eta.remaining(0) == 0


# ---- recording -----------------------------------------------------------------------------------


def test_numbers_and_tensors_of_all_kinds(monitor):
    weight = torch.ones((), requires_grad=True)
    monitor.record(0, {"a": 1, "b": torch.tensor([2.0]), "c": weight * 3, "d": torch.tensor(True)})
    monitor.record(1, {"a": torch.tensor(5, dtype=torch.bfloat16)})
    monitor.flush()
    series = monitor._pump.run.series["metrics"]
    assert series["a"].window().mean == (1.0, 5.0)
    assert [series[name].window().mean for name in "bcd"] == [(2.0,), (3.0,), (1.0,)]


def test_a_value_that_changes_later_was_read_before(monitor):
    loss = torch.tensor(1.0)
    values = {"loss": loss}
    monitor.record(0, values)
    loss.add_(1)
    values["loss"] = 7.0
    monitor.flush()
    assert monitor._pump.run.series["metrics"]["loss"].window().mean == (1.0,)


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
    assert monitor._pump.run.series["metrics"]["loss"].window().mean == (0, 2, 4, 6, 8)


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
    counts = {name: each.count for name, each in monitor._pump.run.series["metrics"].items()}
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
    return [each["kind"] for each in monitor._pump.run.alerts]


def test_a_loss_that_is_no_number_is_told_once(monitor):
    for step in range(10):
        monitor.record(step, {"loss": math.nan if step > 4 else 1.0})
    monitor.flush()
    monitor.record(10, {"loss": math.inf})
    assert kinds(monitor) == ["nan"]
    assert monitor._pump.run.alerts[0]["message"] == "loss is nan at step 5"
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
    while not monitor._pump.run.alerts and time.monotonic() < limit:
        time.sleep(0.02)
    assert kinds(monitor) == ["stall"]
    monitor.record(1, {"loss": 1.0})
    monitor.flush()
    assert [each["message"] for each in monitor._pump.run.events] == ["it goes on"]
    monitor.finish()


def test_an_alert_of_ones_own(monitor):
    monitor.event("alert", "the learning rate is strange")
    monitor.event("signal", "SIGTERM")
    assert kinds(monitor) == ["alert"]
    assert monitor._pump.run.events[0]["kind"] == "signal"


# ---- the model, the machine, the files -----------------------------------------------------------


def test_a_watched_graph_is_named_measured_and_drawn(monitor):
    model = graph()
    monitor.set_metadata({"parameters": "what the user says wins", "lr": 0.1})
    monitor.flush()
    monitor.watch_profiled(model)
    model(torch.ones(1, 4))
    monitor.log(0, 1.0, {})
    monitor.flush()
    run = monitor._pump.run
    assert run.identity["label"] == "net"
    assert len(run.identity["hash"]) == 64
    assert run.metadata == {"parameters": "what the user says wins", "lr": 0.1}
    assert "forward time" in run.picture


def test_the_last_picture_is_that_of_the_model_at_the_end(monitor, capsys):
    model = graph()
    model(torch.ones(1, 4))
    monitor.finish_with(model)
    assert monitor._pump.run.picture.startswith("<svg")
    assert "no picture" not in capsys.readouterr().out


def test_a_plain_module_has_a_name_and_a_size_but_no_picture(monitor):
    monitor.watch(nn.Linear(3, 2))
    monitor.log(0, 1.0, {})
    monitor.flush()
    assert monitor._pump.run.identity["label"] == "Linear"
    assert monitor._pump.run.metadata["parameters"] == {"total": 8, "trainable": 8, "frozen": 0}
    assert monitor._pump.run.picture == ""


def test_the_machine_is_sampled():
    monitor = Monitor(1, quiet=True)
    limit = time.monotonic() + 10
    while not monitor._pump.run.series["resources"] and time.monotonic() < limit:
        time.sleep(0.05)
    monitor.log(0, 1.0, {})
    (logged,) = monitor.history()
    assert 0 <= logged.resources["cpu"] <= 100
    assert 0 < logged.resources["ram_used"] < logged.resources["ram_total"]
    monitor.finish()


def test_without_psutil_the_kernel_is_asked(monkeypatch):
    from flodl.monitor import resources

    monkeypatch.setattr(resources, "_module", lambda name: None)
    probe = resources.MachineProbe()
    probe.sample()
    time.sleep(0.05)
    found = probe.sample()
    assert set(found) == {"cpu", "ram_total", "ram_used", "process_ram"}
    assert 0 <= found["cpu"] <= 100


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
def test_an_archive_of_many_epochs_is_small(tmp_path):
    monitor = Monitor(0, quiet=True, resources=False)
    for epoch in range(10_000):
        monitor.log(epoch, 1.0, {"loss": 1 / (epoch + 1), "accuracy": 0.5, "lr": 1e-3})
    monitor.finish()
    monitor.save_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 5e6


class FakeNvml:
    """NVML of a machine with two GPUs, one of which does not tell its power."""

    class NVMLError(Exception):
        pass

    class Usage:
        def __init__(self, **values):
            self.__dict__.update(values)

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        return self.Usage(gpu=80 - 40 * handle)

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return self.Usage(used=GB * (handle + 1), total=8 * GB)

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if handle:
            raise self.NVMLError
        return 250_000

    def nvmlDeviceGetTemperature(self, handle, sensor):  # noqa: N802
        return 60 + 10 * handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return 0x20 * handle


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, {"gpu": 60.0, "vram_used": 3.0 * GB, "vram_total": 16.0 * GB, "power": 250.0,
                "temperature": 65.0, "throttled": 1.0, "gpu1.gpu": 40.0}),
        ("1", {"gpu": 40.0, "vram_used": 2.0 * GB, "vram_total": 8.0 * GB, "temperature": 70.0}),
        ("", {}),
    ],
)  # fmt: skip
def test_gpus_are_asked_through_nvml(monkeypatch, visible, expected):
    from flodl.monitor import resources

    monkeypatch.setattr(
        resources, "_module", lambda name: FakeNvml() if name == "pynvml" else None
    )
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = resources.MachineProbe().sample()
    assert {name: found[name] for name in expected} == expected
    assert ("gpu" in found) is bool(expected)


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
    assert monitor._pump.run.series["metrics"]["loss"].count == 1
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
