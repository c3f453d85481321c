"""Teams whose ranks a launcher started, here in threads of one process."""

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from flodl.distributed import ControlRow
from flodl.distributed.team import TeamError, joining
from flodl.distributed.team.joining import join, leave
from flodl.distributed.team.launcher import open_store
from flodl.distributed.team.place import place_of

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def no_stores(monkeypatch):
    monkeypatch.setattr(joining, "_served", {})


@pytest.fixture
def place():
    """The place of rank 0 of two, whose store no process has yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return place_of(
        {
            "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    )  # fmt: skip


def row(rank):
    return ControlRow(rank=rank, window=0, done=rank, busy=0.5)


def gather_on(team):
    """Gather again and again: one that the others gave up may still complete."""
    while True:
        team.gather(row(team.rank))


def on_both(job, place, monkeypatch):
    """Return what a job returns on two ranks; both have the same number of trainings behind them."""
    monkeypatch.setattr(joining, "_numbers", iter([0, 0]))

    def member(rank):
        # Only the first rank of a place without an agent serves.
        return job(replace(place, rank=rank, serves=place.serves and rank == 0))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(member, range(2)))


def test_join_without_an_agent_meets_in_the_store_of_the_first_rank(place, monkeypatch):
    def job(own):
        team = join(own, "cpu", patience=10.0)
        rows = team.gather(row(own.rank))
        leave(team, own)
        return [each.done for each in rows]

    assert on_both(job, place, monkeypatch) == [[0, 1], [0, 1]]


def test_join_after_a_restart_does_not_read_keys_of_before(place, monkeypatch):
    store, port = open_store()
    before = replace(place, address=("127.0.0.1", port), serves=False)

    def broken_off(own):
        team = join(own, "cpu", patience=10.0)
        team.gather(row(own.rank))
        team.give_up()
        team.close()

    def job(own):
        team = join(own, "cpu", patience=10.0)
        members = [each.rank for each in team.gather(row(own.rank))]
        leave(team, own)
        return members

    on_both(broken_off, before, monkeypatch)
    assert store.check(["flodl/0/try0/dead/1", "flodl/0/try0/0/g0/members"])
    assert on_both(job, replace(before, attempt=1), monkeypatch) == [[0, 1], [0, 1]]


def test_fail_of_one_rank_ends_the_others_with_its_reason(place, monkeypatch):
    def job(own):
        team = join(own, "cpu", patience=10.0)
        try:
            team.gather(row(own.rank))
            if own.rank == 1:
                team.fail("ValueError: this batch is bad")
                return ""
            with pytest.raises(TeamError) as found:
                gather_on(team)
            return str(found.value)
        finally:
            team.close()

    told = on_both(job, place, monkeypatch)
    assert told[0] == "rank 1 failed, so rank 0 ends too: ValueError: this batch is bad"


def test_give_up_of_one_rank_lets_the_others_go_on_at_once(place, monkeypatch):
    def job(own):
        team = join(own, "cpu", patience=300.0)
        team.gather(row(own.rank))
        if own.rank == 1:
            team.give_up()
            team.close()
            return ()
        team.gather(row(own.rank))
        members = team.members
        team.close()
        return members

    assert on_both(job, place, monkeypatch) == [(0,), ()]


def test_long_wait_for_a_lost_rank_calls_back(place, monkeypatch):
    monkeypatch.setattr("flodl.distributed.team.team._LONG", 0.05)

    def job(own):
        team = join(own, "cpu", patience=300.0)
        team.on_long_wait = lambda: 1 / 0
        team.gather(row(own.rank))
        if own.rank == 0:
            with pytest.raises(ZeroDivisionError):
                team.gather(row(own.rank))
        team.close()

    on_both(job, place, monkeypatch)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"patience": 0}, "patience is 0 s"), ({"min_ranks": 3}, "min_ranks is 3 with 2 devices")],
)
def test_join_with_an_impossible_setting_says_it(place, settings, said):
    with pytest.raises(TeamError, match=said):
        join(place, "cpu", **settings)


def test_join_where_no_store_can_be_opened_says_it(place):
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(TeamError, match="rank 0 cannot open the store at"):
        join(replace(place, address=taken.getsockname()), "cpu")
