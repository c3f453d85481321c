"""Random trainings by policies cadence and async: kills, stops, errors, and other ranks after a resume."""

import random
import signal
import time

import pytest

from flodl.distributed import ElChe
from flodl.distributed.team import WorkerError
from tests.flodl.train.cadence.window_jobs import BATCHES, Acting, MissedSum, builder, ends

CADENCE, ASYNC, EPOCHS = 60, 20, 3
STEPS = EPOCHS * BATCHES


def drawn(number):
    """Return the settings of one training, and its legs: ranks, and what happens to them."""
    draw = random.Random(number)
    legs = []
    for _ in range(draw.choice([1, 1, 2, 3])):
        ranks = draw.randint(2, 4)
        doomed = draw.sample(range(ranks), draw.randint(0, ranks - 1))
        acts = {rank: (draw.randint(1, 40), signal.SIGKILL) for rank in doomed}
        if doomed and draw.random() < 0.1:
            acts[doomed[0]] = (draw.randint(1, 20), signal.SIGSTOP)
        half = ranks > 2 and draw.random() < 0.25
        legs.append({"ranks": ranks, "acts": acts, "half": draw.randint(2, 9) if half else 0})
    return {
        "is_async": number >= CADENCE,
        "legs": legs,
        "accumulate": draw.choice([1, 1, 1, 2, 3, 7]),
        "every": draw.randint(5, 40),
        "outer": draw.random() < 0.3,
        "ema": draw.random() < 0.3,
        "precision": draw.choice([None, None, "bf16"]),
    }


def train_leg(case, place, folder):
    """Train one leg; all but the last end with an error of one rank, somewhere in an epoch."""
    leg, is_last = case["legs"][place], place == len(case["legs"]) - 1
    acts = dict(leg["acts"])
    if leg["half"]:
        train = MissedSum(leg["half"], dies=0, misses=leg["ranks"] - 1)
    else:
        if not is_last:
            acts[leg["ranks"] - 1] = (random.Random(place).randint(10, 30), "raise")
        train = Acting(folder, acts, seconds=0.001)
    made = builder(folder, leg["ranks"], train=train, epochs=EPOCHS)
    made.accumulate(case["accumulate"]).precision(case["precision"]).patience(2.0)
    made.run_dir(folder / "run").checkpoints(steps=case["every"]).resume("auto")
    if case["is_async"]:  # short windows, so that a sum is under way most of the time
        made.policy("async").el_che(ElChe(max_anchor=2))
    if case["outer"]:
        made.outer(0.7, 0.9)
    if case["ema"]:
        made.ema(0.9)
    if leg["half"] and not is_last:
        made.max_steps(STEPS // 2)
    return made.run()


@pytest.mark.torch
@pytest.mark.campaign(
    "cadence", covers=("flodl/train/cadence", "flodl/distributed/team", "flodl/distributed")
)
def test_cadence_campaign_of_random_trainings(campaign, tmp_path):
    outcomes = {"without a fault": 0, "with faults": 0}
    kills, ahead, stops, resumes, longest = 0, 0, 0, 0, 0.0
    for number in range(CADENCE + ASYNC):
        case, folder = drawn(number), tmp_path / str(number)
        folder.mkdir()
        start = time.perf_counter()
        faults = 0
        for place, leg in enumerate(case["legs"]):
            for each in folder.glob("fault-*"):
                each.unlink()
            for each in folder.glob("end-*"):
                each.unlink()
            handle = train_leg(case, place, folder)
            try:
                state = handle.join()
            except WorkerError as error:
                assert "this batch is bad" in str(error), (number, case)  # noqa: PT017
            hit = {int(each.name.removeprefix("fault-")) for each in folder.glob("fault-*")}
            kills += sum(leg["acts"].get(rank, (0, 0))[1] == signal.SIGKILL for rank in hit)
            stops += sum(leg["acts"].get(rank, (0, 0))[1] == signal.SIGSTOP for rank in hit)
            faults += len(hit) + bool(leg["half"])
            kills += bool(leg["half"])
            resumes += place > 0
            ahead += case["is_async"] * (bool(leg["half"]) + len(hit))
        longest = max(longest, time.perf_counter() - start)
        assert state.buffers["seen"].tolist() == [EPOCHS] * BATCHES, (number, case)
        assert state.steps == STEPS, (number, case)
        assert len(set(ends(folder).values())) == 1, (number, case)
        outcomes["with faults" if faults else "without a fault"] += 1
    worst = {
        "kills": kills,
        "faults while training ahead": ahead,
        "stops": stops,
        "resumes": resumes,
        "seconds": round(longest, 1),
    }
    campaign.write(seed=0, cases=CADENCE + ASYNC, outcomes=outcomes, worst=worst)
