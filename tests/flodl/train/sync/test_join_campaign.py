"""Random trainings that ranks join while others die, by every policy."""

import random
import signal
import time

import pytest

from flodl.distributed import ElChe
from tests.flodl.train.cadence.window_jobs import BATCHES, counting_loss, ends
from tests.flodl.train.cadence.window_jobs import builder as averaging
from tests.flodl.train.sync.shared_jobs import Awaiting, digest, loss_of
from tests.flodl.train.sync.shared_jobs import builder as exact

CASES, EPOCHS = 42, 40
POLICIES = ("sync", "cadence", "async")


def drawn(number):
    """Return one training: its ranks, who is added or replaced, and who dies when."""
    draw = random.Random(number)
    ranks, more = draw.randint(2, 3), draw.randint(1, 2)
    everyone = range(ranks + more)
    # One of them lives; those that come later may die too.
    doomed = draw.sample(everyone, draw.randint(0, len(everyone) - 1))
    early = [rank for rank in doomed if rank < ranks - 1 and draw.random() < 0.4]
    return {
        "policy": POLICIES[number % len(POLICIES)],
        "ranks": ranks,
        "more": more,
        "respawn": draw.choice([0, 0, 1]),
        "early": {rank: draw.randint(1, 15) for rank in early},
        "late": {rank: draw.randint(1, 40) for rank in doomed if rank not in early},
    }


def begun(case, folder):
    killed = {
        when: {rank: (at, signal.SIGKILL) for rank, at in case[when].items()}
        for when in ("early", "late")
    }
    is_exact = case["policy"] == "sync"
    loss = loss_of if is_exact else counting_loss
    # The first of the ranks that come is awaited; what dies after it has come is counted from then on.
    train = Awaiting(folder, case["ranks"], acts=killed["early"], after=killed["late"], loss=loss)
    if is_exact:
        made = exact(case["ranks"], epochs=EPOCHS, train=train)
        made.on("start", train.note_rank)
    else:
        made = averaging(folder, case["ranks"], train=train, epochs=EPOCHS)
        made.policy(case["policy"]).el_che(ElChe(max_anchor=3))
    return made.patience(5.0).respawn(case["respawn"]).run_dir(folder / "run").run()


@pytest.mark.torch
@pytest.mark.campaign(
    "joins", covers=("flodl/train/sync", "flodl/train/cadence", "flodl/distributed/team")
)
def test_join_campaign_of_random_trainings(campaign, tmp_path):
    wanted = digest(exact(1, epochs=EPOCHS).run().join())
    outcomes = dict.fromkeys(POLICIES, 0)
    deaths, joins, longest = 0, 0, 0.0
    for number in range(CASES):
        case, folder = drawn(number), tmp_path / str(number)
        folder.mkdir()
        start = time.perf_counter()
        handle = begun(case, folder)
        for _ in range(case["more"]):
            time.sleep(random.Random(number).uniform(0.0, 1.0))
            handle.add_rank("cpu")
        state = handle.join()
        longest = max(longest, time.perf_counter() - start)
        ranks = {each.rank for metrics in state.history for each in metrics.per_rank}
        joins += len([rank for rank in ranks if rank >= case["ranks"]])
        deaths += len(list(folder.glob("fault-*")))
        if case["policy"] == "sync":
            assert digest(state) == wanted, (number, case)
        else:
            seen = state.buffers["seen"].tolist()
            assert seen == [EPOCHS] * BATCHES, (number, case)
            assert len(set(ends(folder).values())) == 1, (number, case)
        assert [each.epoch for each in state.history] == list(range(EPOCHS)), (number, case)
        outcomes[case["policy"]] += 1
    assert joins >= CASES
    worst = {"deaths": deaths, "joins": joins, "seconds": round(longest, 1)}
    campaign.write(seed=0, cases=CASES, outcomes=outcomes, worst=worst)
