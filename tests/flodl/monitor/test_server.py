"""The server over real HTTP: nobody misses a message, nobody waits, and strangers get nothing."""

import json
import math
import os
import random
import socket
import struct
import threading
import time
from xml.etree import ElementTree as ET

import pytest
import torch
from torch import nn

from flodl import FlowBuilder
from flodl.monitor import broadcast
from flodl.monitor.access import Access
from flodl.monitor.addresses import address_lines
from flodl.monitor.gallery import Gallery
from flodl.monitor.hub import Hub
from flodl.monitor.monitor import Monitor
from flodl.monitor.server import MonitorServer
from flodl.monitor.storage import open_reader
from tests.flodl.monitor.streams import Stream, request, token_of

pytestmark = pytest.mark.torch


@pytest.fixture
def monitor():
    made = Monitor(0, quiet=True, resources=False, accepts=("save", "stop"))
    yield made
    made.finish()


def read_json(url, path):
    status, _, body = request(url, path)
    assert status == 200
    return json.loads(body)


# ---- what is served ------------------------------------------------------------------------------


def test_everything_can_be_asked_for(monitor):
    url = monitor.serve()
    model = FlowBuilder.from_(nn.Linear(4, 2)).label("net").build()
    model(torch.ones(1, 4))
    monitor.watch(model)
    for step in range(100):
        monitor.record(step, {"loss": float(step), "odd/näme": 1.0})
    monitor.log(0, 1.0, {"valid": float("nan"), "<b>": 2.0})
    monitor.flush()
    status, headers, page = request(url, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"<title>flodl monitor</title>" in page
    snapshot = read_json(url, "/api/snapshot")["runs"]["run"]
    assert snapshot["series"]["metrics"] == {"loss": 100, "odd/näme": 100}
    assert snapshot["epochs"]["metrics"] == {"valid": [None], "<b>": [2.0]}
    assert snapshot["identity"]["label"] == "net"
    (epoch,) = read_json(url, "/api/history")
    assert epoch["epoch"] == 1
    assert epoch["metrics"] == {"valid": None, "<b>": 2.0}
    assert epoch["step"] == 99
    loss = read_json(url, "/api/series?name=loss&from=10&to=12")["loss"]
    assert loss["steps"] == [9, 10, 11, 12, 13]
    assert loss["count"] == 100
    few = read_json(url, "/api/series?points=5")
    assert len(few["odd/näme"]["steps"]) == 5
    assert few["loss"]["high"] == [19, 39, 59, 79, 99]
    status, _, picture = request(url, "/graph.svg")
    assert ET.fromstring(picture).tag.endswith("svg")
    status, headers, table = request(url, "/epochs.csv")
    assert table.decode() == "epoch,duration_s,valid,<b>\n1,1.000000,nan,2.0\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nothing", 404), ("/../etc/passwd", 404), ("/api/series?run=x", 400),
     ("/api/series?from=x", 400), ("/graph.svg", 404), ("/api/series?group=x", 200)],
)  # fmt: skip
def test_what_is_not_there(monitor, path, status):
    assert request(monitor.serve(), path)[0] == status


def test_the_page_asks_nobody_else(monitor):
    _, headers, page = request(monitor.serve())
    assert len(page) <= 150_000
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    # The licence of uPlot names its home; nothing loads it.
    rest = page.replace(b"https://github.com/leeoniya/uPlot", b"")
    assert [mark for mark in (b"http://", b"https://", b"@import", b"url(") if mark in rest] == []


# ---- the stream ----------------------------------------------------------------------------------


class Log:
    """What somebody who reads the stream knows; fails when something comes twice or not at all."""

    def __init__(self):
        self.epochs = []
        self.points = 0
        self.finished = False
        self.cuts = 0

    def take(self, kind, data):
        if kind == "snapshot":
            (run,) = data["runs"].values()
            self.epochs = run["epochs"]["epoch"]
            self.points = run["series"]["metrics"].get("loss", 0)
            self.finished = run["status"] == "finished"
        elif kind == "epoch":
            assert data["index"] == len(self.epochs)
            self.epochs.append(data["epoch"])
        elif kind == "points":
            assert data["before"] == [self.points]
            self.points += data["count"]
        elif kind == "finish":
            self.finished = True


def follow(url, log, cuts=0, seed=0):
    """Read to the end, cutting the connection at random messages; return how often it was cut."""
    generator = random.Random(seed)
    last = ""
    while not log.finished:
        try:
            with Stream(url, last) as stream:
                left = generator.randint(1, 6) if log.cuts < cuts else -1
                for kind, data in stream.messages():
                    log.take(kind, data)
                    last = stream.last
                    left -= 1
                    if left == 0 and not log.finished:
                        log.cuts += 1
                        break
        except OSError:
            if log.finished:
                break
            time.sleep(0.01)
    return log.cuts


def train(monitor, epochs, pause=0.004):
    for epoch in range(epochs):
        train_one(monitor, epoch, pause)


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


def train_one(monitor, epoch, pause=0.004):
    for step in range(5):
        monitor.record(epoch * 5 + step, {"loss": 1.0})
    monitor.log(epoch, 0.1, {"valid": 1.0})
    time.sleep(pause)


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
    gallery = Gallery([tmp_path])
    server = MonitorServer(gallery.hub, access=Access(host="127.0.0.1"))
    with Stream(server.url) as stream:
        _, data = next(stream.messages())
    server.close()
    (run,) = data["runs"].values()
    assert run["status"] == "finished"


def test_a_number_of_another_server_is_not_taken_for_ours():
    hub = Hub()
    assert b"event: snapshot" in hub.join(lambda _: None, "abcdef.3")
    assert b"event: snapshot" in hub.join(lambda _: None, "nonsense")
    assert b"event: snapshot" in hub.join(lambda _: None, hub._id(99))


def test_what_is_no_longer_kept_is_replaced_by_a_summary(monkeypatch):
    monkeypatch.setattr("flodl.monitor.hub._RING_BYTES", 500)
    monitor = Monitor(0, quiet=True, resources=False)
    first = monitor._pump.hub._id(0)
    train(monitor, 30, 0)
    monitor.flush()
    assert b"event: snapshot" in monitor._pump.hub.join(lambda _: None, first)
    monitor.finish()


def test_twenty_readers_get_the_same(monitor):
    url = monitor.serve()
    logs = [Log() for _ in range(20)]
    readers = [threading.Thread(target=follow, args=(url, log)) for log in logs]
    for reader in readers:
        reader.start()
    limit = time.monotonic() + 10
    while monitor._pump.hub.audience < 20 and time.monotonic() < limit:
        time.sleep(0.01)
    train(monitor, 20)
    monitor.finish()
    for reader in readers:
        reader.join(timeout=20)
    assert [(log.epochs, log.points, log.finished) for log in logs] == [
        (list(range(20)), 100, True)
    ] * 20


def test_who_does_not_read_is_cut_off_and_nobody_waits(monitor, monkeypatch):
    monkeypatch.setattr(broadcast, "MOST_WAITING_BYTES", 50_000)
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
    while monitor._pump.hub.audience > 1 and time.monotonic() < limit:
        time.sleep(0.01)
    assert monitor._pump.hub.audience == 1
    monitor.finish()
    reader.join(timeout=20)
    assert len(log.epochs) == 400
    lazy.close()


def test_a_reader_that_vanishes_is_forgotten(monitor):
    url = monitor.serve()
    stream = Stream(url)
    next(stream.messages())
    assert monitor._pump.hub.audience == 1
    # A reset, as when a laptop is closed.
    stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()
    limit = time.monotonic() + 5
    while monitor._pump.hub.audience and time.monotonic() < limit:
        monitor.log(0, 1.0, {})
        time.sleep(0.02)
    assert monitor._pump.hub.audience == 0


def test_a_run_that_is_recorded_again_begins_anew_for_those_who_look(tmp_path):
    with Monitor(9, run=tmp_path, quiet=True, resources=False) as monitor:
        train(monitor, 4, 0)
    gallery = Gallery([tmp_path])
    messages = []
    gallery.hub.join(messages.append)
    with Monitor(9, run=tmp_path, quiet=True, resources=False) as monitor:
        monitor.record(10, {"loss": 2.0})
        monitor.log(2, 1.0, {"valid": 2.0})
    gallery.look()
    told = b"".join(messages)
    assert told.count(b"event: reset") == 2
    snapshot = gallery.hub.snapshot()["runs"].popitem()[1]
    assert snapshot["epochs"]["epoch"] == [0, 1, 2]
    assert snapshot["series"]["metrics"]["loss"] == 11


# ---- who may -------------------------------------------------------------------------------------


def test_a_page_of_the_internet_gets_nothing(monitor):
    url = monitor.serve()
    for host in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
    ):
        status, _, body = request(url, "/api/snapshot", Host=host)
        assert status == 403, host
        assert b"runs" not in body
    for host in ("localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:99"):
        assert request(url, "/api/snapshot", Host=host)[0] == 200, host


def test_a_proxy_may_keep_its_name_when_it_brings_the_token(monitor):
    url = monitor.serve()
    token = token_of(url)
    outside = {"Host": "hub.example.org"}
    status, headers, _ = request(url, f"/?token={token}", **outside)
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path" not in cookie  # the folder that the browser sees, whatever the proxy calls it
    cookie = cookie.split(";")[0]
    assert request(url, "/api/snapshot", Cookie=cookie, **outside)[0] == 200
    name = cookie.split("=")[0]
    assert request(url, "/api/snapshot", Cookie=f"{name}=x", **outside)[0] == 403
    assert request(url, "/?token=wrong", **outside)[0] == 403


def test_a_name_of_ones_own_may_be_allowed():
    access = Access(host="127.0.0.1", hosts=("train.example",))
    assert access.may_read({"Host": "train.example:8420"}, {}) == "yes"
    assert access.may_read({"Host": "other.example"}, {}) == "wrong host"


def test_beyond_this_machine_reading_needs_the_token():
    access = Access(host="0.0.0.0")
    assert access.may_read({"Host": "192.168.1.5:80"}, {}) == "no token"
    assert access.may_read({"Host": "192.168.1.5:80"}, {"token": [access.token]}) == "yes"


def ask(url, action, **headers):
    body = json.dumps({"action": action})
    return request(url, "/api/control", "POST", body, **headers)


def test_only_who_has_the_token_changes_something(monitor):
    url = monitor.serve()
    name = monitor._server.access.cookie
    assert ask(url, "stop")[0] == 403
    assert ask(url, "stop", Cookie=f"{name}={token_of(url)}")[0] == 403
    assert ask(url, "stop", X_Flodl_Token="wrong")[0] == 403
    assert monitor.requests() == ()
    assert ask(url, "stop", X_Flodl_Token=token_of(url))[0] == 200
    assert monitor.requests() == ("stop",)
    assert monitor.requests() == ()
    status, _, body = ask(url, "format the disk", X_Flodl_Token=token_of(url))
    assert status == 400
    assert b"is not accepted (accepted: save, stop)" in body
    status, _, _ = request(url, "/api/control", "POST", "no json", X_Flodl_Token=token_of(url))
    assert status == 400


def test_each_server_has_its_own_token(monitor):
    other = Monitor(0, quiet=True, resources=False)
    assert token_of(other.serve()) != token_of(monitor.serve())
    other.finish()


def test_noise_does_no_harm(monitor):
    url = monitor.serve()
    port = int(url.split(":")[2].split("/")[0])
    generator = random.Random(3)
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as noisy:
            noisy.sendall(generator.randbytes(generator.randint(0, 300)) + b"\r\n\r\n")
    assert request(url, "/api/snapshot")[0] == 200


# ---- beginning and end ---------------------------------------------------------------------------


def test_the_end_closes_everything(capfd):
    monitor = Monitor(1, quiet=True, resources=False)
    url = monitor.serve()
    port = int(url.split(":")[2].split("/")[0])
    stream = Stream(url)
    messages = stream.messages()
    next(messages)
    before = threading.active_count()
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.finish()
    assert [kind for kind, _ in messages][-1] == "finish"
    stream.close()
    assert threading.active_count() < before
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken_is_no_reason_to_fail(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monitor = Monitor(1, resources=False)
        url = monitor.serve(port)
        assert f":{port}/" not in url
        assert f"port {port} cannot be had" in capsys.readouterr().out
        assert request(url)[0] == 200
        assert monitor.serve() == url
        monitor.finish()


def test_other_runs_can_be_shown_beside_it(tmp_path):
    with Monitor(1, run=tmp_path / "old", quiet=True, resources=False) as old:
        old.log(0, 1.0, {"loss": 1.0})
    monitor = Monitor(1, run=tmp_path / "new", quiet=True, resources=False)
    url = monitor.serve(compare=[tmp_path / "old"])
    assert [*read_json(url, "/api/snapshot")["runs"]] == ["new", "old"]
    assert len(read_json(url, "/api/history?run=old")) == 1
    monitor.finish()


def test_runs_of_other_processes_are_found_and_followed(tmp_path):
    gallery = Gallery([tmp_path])
    assert gallery.names == ()
    monitor = Monitor(2, run=tmp_path / "runs" / "a", quiet=True, resources=False)
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.flush()
    gallery.look()
    assert gallery.names == ("a",)
    messages = []
    gallery.hub.join(messages.append)
    monitor.log(1, 1.0, {"loss": 0.5})
    monitor.finish()
    gallery.look()
    told = b"".join(messages)
    assert told.count(b"event: epoch") == 1
    assert told.count(b"event: finish") == 1
    assert gallery.hub.snapshot()["runs"]["a"]["status"] == "finished"


def test_a_process_that_ends_without_finishing_is_told_from_one_that_was_killed(tmp_path):
    monitor = Monitor(2, run=tmp_path, quiet=True, resources=False)
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor._stop()  # what happens at the exit of the interpreter
    run = open_reader(tmp_path).run
    assert run.status() == "stopped"
    run.stopped = False
    run.process["pid"] = 2**22 + os.getpid()
    assert run.status() == "lost"


def test_the_way_from_where_the_user_sits():
    url = "http://127.0.0.1:8420/?token=x"
    assert address_lines(url, {}) == (url,)
    (_, line) = address_lines(url, {"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"})
    assert line.startswith("from where you sit: ssh -N -L 8420:127.0.0.1:8420 ")


@pytest.mark.slow
def test_single_points_of_a_long_run_are_found_in_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr("flodl.monitor.series.CAPACITY", 1024)
    monkeypatch.setattr("flodl.monitor.shelf.MARK_BYTES", 2000)

    def value(step, of=0.0):
        return math.sin(step) + of

    with Monitor(0, run=tmp_path, quiet=True, resources=False) as monitor:
        for step in range(20_000):
            monitor.record(step, {"loss": value(step), "lr": 1.0})
            if step % 100 == 0:
                monitor.flush()
        monitor.flush()
        url = monitor.serve()
        path = "/api/series?name=loss&from=7000&to=7100"
        live = read_json(url, path)["loss"]
    # A second process begins again at step 15,000.
    with Monitor(0, run=tmp_path, quiet=True, resources=False) as monitor:
        for step in range(15_000, 16_000):
            monitor.record(step, {"loss": value(step, 5.0), "lr": 1.0})
        monitor.flush()
        url = monitor.serve()
        again = read_json(url, path)["loss"]
        seam = read_json(url, "/api/series?name=loss&from=14990&to=15010")["loss"]
        whole = read_json(url, "/api/series?name=loss&points=500")["loss"]
    for found in (live, again):
        assert "low" not in found
        assert found["steps"] == list(range(7000, 7101))
        assert found["per"] == 1
        assert found["mean"] == pytest.approx(
            [value(step) for step in range(7000, 7101)], rel=1e-5
        )
    assert live["count"] == 20_000
    assert seam["steps"] == list(range(14_990, 15_011))
    assert seam["mean"] == pytest.approx(
        [value(step, 5.0 if step >= 15_000 else 0.0) for step in range(14_990, 15_011)], rel=1e-5
    )
    assert whole["per"] > 1


def test_two_servers_of_a_machine_do_not_take_each_others_cookies():
    one, two = Access(host="127.0.0.1"), Access(host="127.0.0.1")
    both = {
        "Host": "hub.example.org",
        "Cookie": f"{one.cookie}={one.token}; {two.cookie}={two.token}",
    }
    assert [each.may_read(both, {}) for each in (one, two)] == ["yes", "yes"]
    assert one.cookie != two.cookie
