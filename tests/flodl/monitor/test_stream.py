"""The stream of messages: nobody misses one or gets one twice, and nobody waits for a slow reader."""

import socket
import struct
import threading
import time

import pytest

from flodl.monitor import broadcast
from flodl.monitor.access import Access
from flodl.monitor.events import EventHub
from flodl.monitor.monitor import Monitor
from flodl.monitor.run_list import RunList
from flodl.monitor.server import MonitorServer
from tests.flodl.monitor.stream_log import Log, follow, train, train_one
from tests.flodl.monitor.streams import Stream

pytestmark = pytest.mark.torch


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_over_a_hundred_reconnections(monitor):
    url = monitor.serve()
    log = Log()
    cuts = []
    reader = threading.Thread(target=lambda: cuts.append(follow(url, log, cuts=100)))
    reader.start()
    epochs = 0
    while log.cuts < 100 and epochs < 3000:
        train_one(monitor, epochs)
        epochs += 1
    monitor.finish()
    reader.join(timeout=30)
    assert cuts == [100]
    assert log.epochs == list(range(epochs))
    assert log.points == 5 * epochs


def test_who_comes_late_gets_everything(monitor):
    url = monitor.serve()
    train(monitor, 10)
    monitor.flush()
    with Stream(url) as stream:
        kind, data = next(stream.messages())
    assert kind == "snapshot"
    log = Log()
    log.take(kind, data)
    assert log.epochs == list(range(10))
    assert log.points == 50


def test_who_comes_after_the_end_is_told_so(tmp_path):
    with Monitor(1, run=tmp_path, quiet=True, resources=False) as monitor:
        monitor.log(0, 1.0, {"loss": 1.0})
    run_list = RunList([tmp_path])
    server = MonitorServer(run_list.hub, access=Access(host="127.0.0.1"))
    with Stream(server.url) as stream:
        _, data = next(stream.messages())
    server.close()
    (run,) = data["runs"].values()
    assert run["status"] == "finished"


def test_a_number_of_another_server_is_not_taken_for_ours():
    hub = EventHub()
    assert b"event: snapshot" in hub.join(lambda _: None, "abcdef.3")
    assert b"event: snapshot" in hub.join(lambda _: None, "nonsense")
    assert b"event: snapshot" in hub.join(lambda _: None, hub._id(99))


def test_what_is_no_longer_kept_is_replaced_by_a_summary(monkeypatch):
    monkeypatch.setattr("flodl.monitor.events._RING_BYTES", 500)
    monitor = Monitor(0, quiet=True, resources=False)
    first = monitor._worker.hub._id(0)
    train(monitor, 30, 0)
    monitor.flush()
    assert b"event: snapshot" in monitor._worker.hub.join(lambda _: None, first)
    monitor.finish()


def test_twenty_readers_get_the_same(monitor):
    url = monitor.serve()
    logs = [Log() for _ in range(20)]
    readers = [threading.Thread(target=follow, args=(url, log)) for log in logs]
    for reader in readers:
        reader.start()
    limit = time.monotonic() + 10
    while monitor._worker.hub.audience < 20 and time.monotonic() < limit:
        time.sleep(0.01)
    train(monitor, 20)
    monitor.finish()
    for reader in readers:
        reader.join(timeout=20)
    assert [(log.epochs, log.points, log.finished) for log in logs] == [
        (list(range(20)), 100, True)
    ] * 20


def test_who_does_not_read_is_cut_off_and_nobody_waits(monitor, monkeypatch):
    # 75 of the 400 messages: on a busy machine, who reads is some of them behind too.
    monkeypatch.setattr(broadcast, "MOST_WAITING_BYTES", 500_000)
    url = monitor.serve()
    lazy = Stream(url, room=4096)
    log = Log()
    reader = threading.Thread(target=follow, args=(url, log))
    reader.start()
    began = time.monotonic()
    for epoch in range(400):
        monitor.record(epoch, {"loss": 1.0})
        monitor.log(epoch, 0.1, {f"a-rather-long-name-{i}" * 4: 1.0 for i in range(60)})
        time.sleep(0.001)
    assert time.monotonic() - began < 20
    monitor.flush()
    limit = time.monotonic() + 10
    while monitor._worker.hub.audience > 1 and time.monotonic() < limit:
        time.sleep(0.01)
    assert monitor._worker.hub.audience == 1
    monitor.finish()
    reader.join(timeout=20)
    assert len(log.epochs) == 400
    lazy.close()


def test_a_reader_that_vanishes_is_forgotten(monitor):
    url = monitor.serve()
    stream = Stream(url)
    next(stream.messages())
    assert monitor._worker.hub.audience == 1
    # A reset, as when a laptop is closed.
    stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()
    limit = time.monotonic() + 5
    while monitor._worker.hub.audience and time.monotonic() < limit:
        monitor.log(0, 1.0, {})
        time.sleep(0.02)
    assert monitor._worker.hub.audience == 0


def test_a_run_that_is_recorded_again_begins_anew_for_those_who_look(tmp_path):
    with Monitor(9, run=tmp_path, quiet=True, resources=False) as monitor:
        train(monitor, 4, 0)
    run_list = RunList([tmp_path])
    messages = []
    run_list.hub.join(messages.append)
    with Monitor(9, run=tmp_path, quiet=True, resources=False) as monitor:
        monitor.record(10, {"loss": 2.0})
        monitor.log(2, 1.0, {"valid": 2.0})
    run_list.look()
    told = b"".join(messages)
    assert told.count(b"event: reset") == 2
    snapshot = run_list.hub.snapshot()["runs"].popitem()[1]
    assert snapshot["epochs"]["epoch"] == [0, 1, 2]
    assert snapshot["series"]["metrics"]["loss"] == 11
