"""Random trainings by policies cadence and async over a network that is slow, stalls or breaks."""

import random
import time
from statistics import median

import pytest

from flodl.distributed import ElChe
from flodl.distributed.team import WorkerError
from tests.flodl.distributed.team.network_proxy import RANKS, STORE, Proxy, Weather, regroups
from tests.flodl.distributed.team.test_network import anchors, through
from tests.flodl.train.cadence.window_jobs import BATCHES, builder, ends

CASES, EPOCHS, PATIENCE = 20, 2, 2.0
KINDS = ("slow", "held", "broken", "store", "mixed", "broken")


def drawn(number):
    """Return one training: its ranks, its windows, and the weather on its way."""
    draw = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    ranks, store = {}, {}
    if kind in ("slow", "mixed"):
        ranks["delay"] = draw.choice([0.005, 0.02, 0.05])
    if kind in ("held", "mixed"):
        ranks["hold_share"] = 0.01 if kind == "held" else 0.003
    if kind in ("broken", "mixed"):
        ranks["breaks"] = tuple(draw.sample(range(10, 120), draw.randint(2, 4)))
        ranks["is_whole"] = draw.random() < 0.5
    if kind == "mixed":
        ranks["down"] = draw.choice([0.0, 1.0])
    if kind in ("store", "mixed"):
        store["delay"] = draw.choice([0.005, 0.02])
    if kind == "store":
        store["breaks"] = (draw.randint(150, 500),)
        store["is_whole"] = number % 4 == 1
    return {
        "kind": kind,
        "count": draw.randint(2, 3),
        "policy": draw.choice(["cadence", "cadence", "async"]),
        "anchor": draw.choice([3, 10, 200]),
        "every": draw.randint(10, 40),
        "ranks": ranks,
        "store": store,
    }


def trained(case, number, folder):
    """Return the state at the end, how it came about, and the proxy."""
    weather = {kind: Weather(**case[kind]) for kind in (RANKS, STORE)}
    with Proxy(**weather, seed=number) as proxy:
        made = through(
            folder, proxy, ranks=case["count"], store=bool(case["store"]), epochs=EPOCHS
        )
        made.patience(PATIENCE).policy(case["policy"]).el_che(ElChe(max_anchor=case["anchor"]))
        made.run_dir(folder / "run").checkpoints(steps=case["every"])
        try:
            state = made.run().join()
        except WorkerError as error:
            assert case["kind"] == "store", (number, case)
            assert "lost the store" in str(error), (number, case)  # noqa: PT017
        else:
            is_whole = len(ends(folder)) == case["count"]
            return state, "all ranks" if is_whole else "without a rank", proxy
    for each in folder.glob("end-*"):
        each.unlink()
    # One rank would need the end of an epoch.
    again = builder(folder, 2, epochs=EPOCHS).policy(case["policy"])
    return again.run_dir(folder / "run").resume("auto").run().join(), "resumed", proxy


@pytest.mark.torch
@pytest.mark.campaign("network", covers=("flodl/train/cadence", "flodl/distributed/team"))
def test_network_campaign_of_random_trainings(campaign, tmp_path):
    fast, slow = (anchors(tmp_path / f"delay-{delay}", delay) for delay in (0.0, 0.05))
    outcomes = {"all ranks": 0, "without a rank": 0, "resumed": 0}
    chunks, held, broken, longest = 0, 0, 0, 0.0
    after_breaks, with_waits = [], []
    for number in range(CASES):
        case, folder = drawn(number), tmp_path / str(number)
        folder.mkdir()
        start = time.perf_counter()
        state, outcome, proxy = trained(case, number, folder)
        longest = max(longest, time.perf_counter() - start)
        assert state.buffers["seen"].tolist() == [EPOCHS] * BATCHES, (number, case)
        assert state.steps == EPOCHS * BATCHES, (number, case)
        assert len(set(ends(folder).values())) == 1, (number, case)
        outcomes[outcome] += 1
        chunks += proxy.chunks.total()
        held += proxy.held.total()
        broken += len(proxy.broken)
        if case["kind"] == "broken":
            for each in regroups(folder).values():
                # The rank that learns of it last waits for no other.
                after_breaks.append(min(each.values()))
                with_waits.append(max(each.values()))
    assert held
    assert len(after_breaks) >= CASES // 3
    worst = {
        "anchor": median(fast),
        "anchor_at_50_ms": max(slow),
        "chunks": chunks,
        "held": held,
        "breaks": broken,
        "regroups_after_breaks": len(after_breaks),
        "regroup_seconds": max(after_breaks),
        "regroup_seconds_with_waits": max(with_waits),
        "seconds": round(longest, 1),
    }
    campaign.write(seed=0, cases=CASES, outcomes=outcomes, worst=worst)
