"""Slow clients, many clients and clients that come again and again: a training does not notice them."""

import contextlib
import selectors
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flodl.monitor import server
from tests.flodl.monitor.crowded_server import CrowdedServer, reconnect
from tests.flodl.monitor.streams import Stream, request

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc"),
]

MEGABYTE = 1 << 20
SLOW = {
    "nothing": b"",
    "request line": b"GET /?a=",
    "headers": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-a: b",
    "body": b"POST /api/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\nx",
}


@pytest.fixture
def crowded():
    made = CrowdedServer()
    yield made
    made.close()


class Slowloris:
    """Clients that send a byte of a request now and then, until they are hung up on."""

    def __init__(self, url, count, start):
        place = urlsplit(url)
        self.answers = set()
        self._selector = selectors.DefaultSelector()
        self._ended = threading.Event()
        for _ in range(count):
            client = socket.create_connection((place.hostname, place.port), timeout=10)
            client.sendall(start)
            client.setblocking(False)
            self._selector.register(client, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._trickle)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        for key in tuple(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    @property
    def left(self):
        return len(self._selector.get_map())

    def _trickle(self):
        while not self._ended.wait(0.05):
            for key, _ in self._selector.select(timeout=0):
                self._selector.unregister(key.fileobj)
                try:
                    self.answers.add(key.fileobj.recv(100))
                except ConnectionError:
                    self.answers.add(b"")
                key.fileobj.close()
            for key in tuple(self._selector.get_map().values()):
                with contextlib.suppress(OSError):
                    key.fileobj.send(b"x")

    def wait_until_gone(self, seconds):
        limit = time.monotonic() + seconds
        while self.left and time.monotonic() < limit:
            time.sleep(0.02)
        return self.left


# ---- clients that are slow -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SLOW)
def test_server_request_that_trickles_in_is_ended(kind, monitor, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.5)
    url = monitor.serve()
    threads = threading.active_count()
    with Slowloris(url, 20, SLOW[kind]) as clients:
        assert clients.wait_until_gone(30) == 0
    assert clients.answers == {b""}  # the end, and no answer to half a request
    limit = time.monotonic() + 15
    while threading.active_count() > threads and time.monotonic() < limit:
        time.sleep(0.02)
    assert threading.active_count() <= threads
    assert monitor._server._http._deadlines == {}


def test_server_answer_is_not_cut_by_the_time_limit_of_a_request(monitor, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
    url = monitor.serve()
    with Stream(url) as stream:
        messages = stream.messages()
        next(messages)
        time.sleep(1)
        monitor.log(0, 1.0, {"loss": 1.0})
        kind, _ = next(messages)
    assert kind == "epoch"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["headers", "body"])
def test_server_slowloris_of_four_hundred_leaves_the_page_and_the_training_alone(kind, crowded):
    descriptors, threads = crowded.at_rest
    with Slowloris(crowded.url, 400, SLOW[kind]) as clients:
        for _ in range(20):
            started = time.monotonic()
            assert request(crowded.url)[0] == 200
            assert time.monotonic() - started < 5
            time.sleep(0.05)
        # More would have come than may be open at once: the oldest gave way.
        assert 0 < clients.left <= server.MOST_REQUESTS
        assert crowded.descriptors() <= descriptors + server.MOST_REQUESTS + 10
        assert crowded.threads() <= threads + server.MOST_REQUESTS + 10
    assert crowded.settled() == crowded.at_rest
    recorded, kept, errors = crowded.close()
    assert recorded == kept > 10
    assert errors == ""


def test_server_clients_that_read_nothing_are_hung_up_on(monitor, monkeypatch):
    monkeypatch.setattr(server._Handler, "timeout", 0.5)
    monkeypatch.setattr(server, "page_html", lambda: "x" * 8 * MEGABYTE)  # more than sockets hold
    url = monitor.serve()
    threads = threading.active_count()
    place = urlsplit(url)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            lazy = stack.enter_context(socket.socket())
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect((place.hostname, place.port))
            lazy.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        limit = time.monotonic() + 10
        while threading.active_count() <= threads and time.monotonic() < limit:
            time.sleep(0.01)
        assert threading.active_count() > threads
        assert request(url, "/api/snapshot")[0] == 200
        while threading.active_count() > threads and time.monotonic() < limit:
            time.sleep(0.02)
        assert threading.active_count() <= threads


# ---- clients that are many -------------------------------------------------------------------------


def test_server_page_too_many_is_refused_until_another_one_closes(monitor, monkeypatch):
    monkeypatch.setattr(server, "MOST_STREAMS", 3)
    url = monitor.serve()
    streams = [Stream(url) for _ in range(3)]
    for stream in streams:
        next(stream.messages())
    with Stream(url) as another:
        assert another.status == 503
    streams.pop().close()
    limit = time.monotonic() + 5
    while monitor._worker.hub.audience > 2 and time.monotonic() < limit:
        time.sleep(0.01)
    streams.append(Stream(url))
    assert [stream.status for stream in streams] == [200, 200, 200]
    for stream in streams:
        stream.close()


def reconnected(crowded, count, seed):
    """Come `count` times, after some to begin with; return the ways and how much it grew."""
    reconnect(crowded.url, 500, seed)
    assert crowded.settled() == crowded.at_rest
    before = crowded.memory()
    ways = reconnect(crowded.url, count, seed + 1)
    left = crowded.settled()
    growth = crowded.memory() - before
    assert left == crowded.at_rest
    assert growth <= 4 * MEGABYTE
    assert request(crowded.url)[0] == 200
    recorded, kept, errors = crowded.close()
    assert recorded == kept > 0
    assert errors == ""
    worst = {"bytes_more": max(growth, 0), "descriptors": left[0], "threads": left[1]}
    return ways, worst


@pytest.mark.slow
def test_server_clients_that_come_again_leave_nothing_behind(crowded):
    reconnected(crowded, 500, 1)


@pytest.mark.campaign(
    "reconnects", covers=("flodl/monitor", "tests/flodl/monitor/crowded_server.py")
)
def test_server_campaign_of_ten_thousand_reconnects(crowded, campaign):
    started = time.monotonic()
    ways, worst = reconnected(crowded, 10_000, 3)
    worst["seconds_of_all"] = time.monotonic() - started
    campaign.write(seed=3, cases=10_000, outcomes=ways, worst=worst)
