"""The server over real HTTP: what is served, how it begins and ends, and runs of other processes."""

import json
import math
import os
import socket
import threading
from xml.etree import ElementTree as ET

import pytest
import torch
from torch import nn

from flodl import FlowBuilder
from flodl.monitor.addresses import address_lines
from flodl.monitor.monitor import Monitor
from flodl.monitor.run_list import RunList
from flodl.monitor.store.storage import open_reader
from tests.flodl.monitor.streams import Stream, request

pytestmark = pytest.mark.torch


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
    run_list = RunList([tmp_path])
    assert run_list.names == ()
    monitor = Monitor(2, run=tmp_path / "runs" / "a", quiet=True, resources=False)
    monitor.log(0, 1.0, {"loss": 1.0})
    monitor.flush()
    run_list.look()
    assert run_list.names == ("a",)
    messages = []
    run_list.hub.join(messages.append)
    monitor.log(1, 1.0, {"loss": 0.5})
    monitor.finish()
    run_list.look()
    told = b"".join(messages)
    assert told.count(b"event: epoch") == 1
    assert told.count(b"event: finish") == 1
    assert run_list.hub.snapshot()["runs"]["a"]["status"] == "finished"


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
    monkeypatch.setattr("flodl.monitor.store.series.CAPACITY", 1024)
    monkeypatch.setattr("flodl.monitor.store.point_index.MARK_BYTES", 2000)

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
