"""What the monitor prints in a terminal: the line of an epoch, the last line, the remaining time."""

import io
import math

import pytest

from flodl.monitor.eta import Eta
from flodl.monitor.monitor import Monitor
from flodl.monitor.store.records import EpochRecord
from flodl.monitor.wording import bytes_text, epoch_line, eta_text, finish_line

pytestmark = pytest.mark.torch

GB = 1 << 30


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
