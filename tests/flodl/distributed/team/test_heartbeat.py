"""Ranks that give no sign of life are silent, and others are not."""

import time

import pytest

from flodl.distributed.team import heartbeat
from flodl.distributed.team.heartbeat import Heartbeat
from flodl.distributed.team.launcher import open_store


@pytest.fixture
def store():
    return open_store()


def wait_until(condition):
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_heartbeat_gives_its_first_sign_at_once(store):
    own = Heartbeat(("127.0.0.1", store[1]), range(2), 600.0, 0)
    assert store[0].add("beat/0", 0) == 1
    own.close()


def test_silence_after_signs_is_noticed_and_ends_with_the_next(store):
    store[0].add("beat/1", 1)
    own = Heartbeat(("127.0.0.1", store[1]), range(2), 0.2, 0)
    wait_until(lambda: own.is_silent(1))
    store[0].add("beat/1", 1)
    wait_until(lambda: not own.is_silent(1))
    assert not own.is_silent(0)
    own.close()
    assert store[0].add("beat/0", 0) > 2


def test_rank_without_any_sign_gets_time_to_import(store, monkeypatch):
    monkeypatch.setattr(heartbeat, "_START", 0.3)
    start = time.monotonic()
    own = Heartbeat(("127.0.0.1", store[1]), range(2), 0.1, 0)
    wait_until(lambda: own.is_silent(1))
    assert time.monotonic() - start > 0.3
    own.close()


def test_own_stop_does_not_make_the_others_silent(store, monkeypatch):
    store[0].add("beat/1", 1)
    own = Heartbeat(("127.0.0.1", store[1]), range(2), 3.0, 0)
    own.close()
    found = []
    waits = iter([False, False, True])  # two looks; an hour passes before each
    hours = iter(range(0, 10 * 3600, 3600))
    monkeypatch.setattr(own._ended, "wait", lambda _: next(waits))
    monkeypatch.setattr(own, "_beat", found.append)
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: next(hours))
    own._run()
    assert found == [2 * own.interval] * 2
