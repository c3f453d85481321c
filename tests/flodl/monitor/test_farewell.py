"""The end of a stream: who reads gets all, who comes too late is sent away, who sleeps is left."""

import json
import socket
import threading
import time

import pytest

from flodl.monitor import broadcast
from flodl.monitor.broadcast import Broadcaster, Client
from flodl.monitor.events import EventHub


@pytest.fixture
def hub():
    return EventHub()


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


def read_all(connection):
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def joined(hub, broadcaster, connection):
    broadcaster.attach(connection, "")
    limit = time.monotonic() + 10
    while not hub.audience and time.monotonic() < limit:
        time.sleep(0.001)


def test_what_is_told_while_others_are_served_is_sent_before_the_end(hub, pair, monkeypatch):
    ours, theirs = pair
    broadcaster = Broadcaster(hub)
    joined(hub, broadcaster, ours)
    send = Client.send
    told = []

    def send_and_end(client):
        left = send(client)
        if not told:
            told.append(hub.tell("finish", "run", {"time": 1}))
            broadcaster._stopping = True
        return left

    monkeypatch.setattr(Client, "send", send_and_end)
    broadcaster.wake()
    assert b"event: finish" in read_all(theirs)
    broadcaster.stop()
    assert told


def test_who_reads_slowly_gets_everything(hub, pair):
    ours, theirs = pair
    broadcaster = Broadcaster(hub)
    joined(hub, broadcaster, ours)
    text = "x" * 3_000_000
    hub.tell("note", "run", {"text": text})
    ending = threading.Thread(target=broadcaster.stop)
    ending.start()
    time.sleep(0.05)
    got = read_all(theirs)
    ending.join(timeout=10)
    (line,) = (each for each in got.splitlines() if b"xxx" in each)
    assert json.loads(line.removeprefix(b"data: "))["text"] == text


def test_who_sleeps_is_left_after_a_while(hub, pair, monkeypatch):
    monkeypatch.setattr(broadcast, "FAREWELL_SECONDS", 0.1)
    broadcaster = Broadcaster(hub)
    joined(hub, broadcaster, pair[0])
    hub.tell("note", "run", {"text": "x" * 3_000_000})
    began = time.monotonic()
    broadcaster.stop()
    assert not broadcaster._thread.is_alive()
    assert time.monotonic() - began < 4


def test_who_comes_too_late_is_sent_away(hub, pair):
    ours, theirs = pair
    broadcaster = Broadcaster(hub)
    broadcaster.stop()
    broadcaster.attach(ours, "")
    assert theirs.recv(1) == b""
    assert not hub.audience
