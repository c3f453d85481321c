"""Faults of the network between ranks: whatever it does, each batch is in the weights once per epoch."""

import time
from pathlib import Path
from statistics import median

import pytest

from flodl.distributed import ElChe
from flodl.distributed.team import WorkerError
from tests.flodl.distributed.team.network_proxy import (
    RANKS,
    STORE,
    Proxy,
    Tunnel,
    Weather,
    regroups,
)
from tests.flodl.train.cadence.window_jobs import BATCHES, Acting, Windows, builder, ends

pytestmark = [pytest.mark.slow, pytest.mark.torch]


class Tunnelled(Acting):
    """A train function whose rank reaches the others through a proxy, and may stall at a batch."""

    def __init__(self, folder, tunnel, stalls=(), seconds=0.002):
        super().__init__(folder, (), seconds)
        self.tunnel, self.stalls = tunnel, dict(stalls)

    def __call__(self, model, batch):
        if self.calls + 1 == self.stalls.get(self.rank):
            (Path(self.folder) / f"stalls-{self.rank}").touch()
            time.sleep(60)
        return super().__call__(model, batch)


def through(folder, proxy, *, ranks=2, store=False, stalls=(), seconds=0.002, epochs=2):
    train = Tunnelled(folder, Tunnel(proxy, folder, store=store), stalls, seconds)
    return builder(folder, ranks, train=train, epochs=epochs)


def require_equal_ends(state, folder, ranks, epochs=2):
    """Require that each batch is in the weights once per epoch, and that all ranks have these."""
    assert state.buffers["seen"].tolist() == [epochs] * BATCHES
    assert state.steps == epochs * BATCHES
    assert sorted(ends(folder)) == [f"end-{rank}" for rank in range(ranks)]
    assert len(set(ends(folder).values())) == 1


def anchors(folder, delay):
    """Return the anchors of a training after its first window; the store is slow too."""
    folder.mkdir()
    windows = Windows(folder)
    with Proxy(ranks=Weather(delay=delay), store=Weather(delay=delay / 2)) as proxy:
        made = through(folder, proxy, store=True, seconds=0.005).el_che(ElChe(overhead_target=0.2))
        state = made.on("window", windows).run().join()
    assert proxy.chunks[RANKS]
    assert proxy.chunks[STORE]
    assert not regroups(folder)
    require_equal_ends(state, folder, 2)
    return [each.anchor for each in windows.read()[1:]]


def test_slow_network_makes_windows_longer(tmp_path):
    fast, slow = anchors(tmp_path / "fast", 0.0), anchors(tmp_path / "slow", 0.05)
    assert max(slow) > 2 * median(fast), (slow, fast)


def test_held_chunks_cost_a_regroup_and_no_batch(tmp_path):
    # Longer than the patience, so that the sum fails; the signs of life go elsewhere.
    with Proxy(ranks=Weather(holds=(60, 150))) as proxy:
        state = through(tmp_path, proxy, ranks=3).patience(2.0).run().join()
    assert proxy.held[RANKS] == 2
    assert regroups(tmp_path)
    require_equal_ends(state, tmp_path, 3)


def test_broken_connections_lose_no_rank_and_no_batch(tmp_path):
    with Proxy(ranks=Weather(breaks=(45, 90))) as proxy:
        state = through(tmp_path, proxy, ranks=3).run().join()
    assert len(proxy.broken) == 2
    assert {tuple(each) for each in regroups(tmp_path).values()} == {(0, 1, 2)}
    require_equal_ends(state, tmp_path, 3)


def test_lost_store_ends_the_ranks_with_a_sentence_and_a_resume_continues(tmp_path):
    run = tmp_path / "run"
    with Proxy() as proxy:
        # Rank 0 waits for rank 1, and asks the store meanwhile whether that makes sense.
        made = through(tmp_path, proxy, store=True, stalls={1: 50}, seconds=0.005)
        handle = made.run_dir(run).checkpoints(steps=20).run()
        while not (tmp_path / "stalls-1").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        proxy.break_all(STORE)
        with pytest.raises(WorkerError) as found:
            handle.join()
    assert str(found.value).startswith(
        "no rank is left: rank 0 died (it lost the store of the ranks), "
        "rank 1 died (it lost the store of the ranks); the logs are beside"
    )
    for rank in range(2):
        log = (run / f"rank-{rank}.log").read_text()
        assert "the process with the store of the ranks is gone; this one ends" in log
        assert "Traceback" not in log
    resumed = builder(tmp_path, 2).run_dir(run).resume("auto").run().join()
    assert any("resumed from" in line for line in resumed.notices)
    require_equal_ends(resumed, tmp_path, 2)
