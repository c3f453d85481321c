"""Collectives and membership of a team, here between threads of one process."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from flodl.distributed import ControlRow
from flodl.distributed.team import LeftOutError, PeerLostError, Team
from flodl.distributed.team.launcher import open_store

pytestmark = pytest.mark.torch


@pytest.fixture
def store():
    return open_store()


def row(rank, **fields):
    return ControlRow(rank=rank, window=0, done=rank, busy=0.5, **fields)


def run(store, job, ranks=2, patience=10.0):
    """Return what a job returns in one thread per rank."""

    def member(rank):
        team = Team(("127.0.0.1", store[1]), rank, ["cpu"] * ranks, patience=patience)
        try:
            return job(team)
        finally:
            team.close()

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(member, range(ranks)))


def wait_for(store, key):
    limit = time.monotonic() + 5
    while not store[0].check([key]):
        assert time.monotonic() < limit
        time.sleep(0.005)


def gather_on(team):
    """Gather again and again: what the others gave up may still complete, but no regroup does."""
    while True:
        team.gather(row(team.rank))


def test_gather_returns_the_rows_of_all_in_order(store):
    rows = [row(0, loss=1.5), row(1, crc=2**53 - 1), row(2)]
    assert run(store, lambda team: team.gather(rows[team.rank]), ranks=3) == [rows] * 3


def test_sum_up_of_several_dtypes_leaves_the_tensors_alone(store):
    def job(team):
        own = [
            torch.full((2, 3), team.rank + 1.0),
            torch.tensor([2**40 + team.rank]),
            torch.tensor(0.5, dtype=torch.float64),
            torch.ones(2),
        ]
        kept = [each.clone() for each in own]
        sums = team.sum_up(own)
        assert all(map(torch.equal, own, kept))
        assert [each.dtype for each in sums] == [each.dtype for each in own]
        return [each.tolist() for each in sums]

    expected = [[[3.0] * 3] * 2, [2**41 + 1], 1.0, [2.0, 2.0]]
    assert run(store, job) == [expected] * 2


def test_share_and_share_text_give_what_one_rank_has(store):
    def job(team):
        found = team.share([torch.tensor([team.rank, 7])], source=1)[0]
        return found.tolist(), team.share_text(f"Grüße von {team.rank}", source=1)

    assert run(store, job) == [([1, 7], "Grüße von 1")] * 2


def test_lost_member_fails_the_sum_and_the_next_gather_regroups(store):
    def job(team):
        team.gather(row(team.rank))
        if team.rank == 1:
            team.close()
            store[0].set("dead/1", "9")
            return None
        with pytest.raises(PeerLostError):
            team.sum_up([torch.ones(2)])
        rows = team.gather(row(team.rank))
        return [each.rank for each in rows], team.members, team.generation, team.position

    found = run(store, job, ranks=3)
    assert found == [([0, 2], (0, 2), 1, 0), None, ([0, 2], (0, 2), 1, 1)]


def test_member_that_wakes_finds_itself_left_out(store):
    def job(team):
        team.gather(row(team.rank))
        if team.rank == 1:
            team._heartbeat.close()  # as if it were stopped
            wait_for(store, "g1/here/0")
            with pytest.raises(LeftOutError, match=r"rank 1 was silent for more than 0.3 s"):
                gather_on(team)
            with pytest.raises(LeftOutError):
                team.sum_up([torch.ones(2)])
            return None
        return [each.rank for each in team.gather(row(team.rank))]

    assert run(store, job, patience=0.3) == [[0], None]


def test_wait_ends_when_another_member_regroups(store):
    def job(team):
        team.gather(row(team.rank))
        if team.rank == 1:
            store[0].set("g1/open", "")
            wait_for(store, "g1/join/0")  # long before the patience is over
            team._drop_group()
        return [each.rank for each in team.gather(row(team.rank))], team.generation

    assert run(store, job) == [([0, 1], 1)] * 2


def test_finish_waits_for_the_other_members(store):
    order = []

    def job(team):
        team.gather(row(team.rank))
        if team.rank == 1:
            wait_for(store, "finished/0")
            time.sleep(0.1)
            order.append("1 begins")
        team.finish()
        order.append("ends")

    run(store, job)
    assert order == ["1 begins", "ends", "ends"]
