"""Random trainings on several ranks, with deaths and other numbers of ranks after a resume."""

import random
import time

import pytest
import torch

from flodl import CosineScheduler
from tests.flodl.train.sync.shared_jobs import Deadly, builder, data, digest, loss_of

CASES, EPOCHS, UNITS = 60, 4, 20


def drawn(number):
    """Return the settings of one training, and the numbers of ranks that continue it."""
    draw = random.Random(number)
    accumulate = draw.choice([1, 2, 3, 4, 5, 7, 8, 16, 64])
    legs = [draw.randint(2, 4) for _ in range(draw.choice([1, 1, 2, 3]))]
    updates = EPOCHS * UNITS // accumulate
    stops = sorted(draw.sample(range(1, updates), min(len(legs) - 1, updates - 1)))
    return {
        "accumulate": accumulate,
        "legs": legs[: len(stops) + 1],
        "stops": [stop * accumulate for stop in stops],
        "precision": draw.choice([None, None, "bf16"]),
        "clip": draw.choice([None, 0.5]),
        "ema": draw.choice([None, 0.9]),
        "cosine": draw.random() < 0.5,
        "evaluate": draw.random() < 0.5,
    }


def configured(devices, case, train, folder):
    made = builder(devices, accumulate=case["accumulate"], epochs=EPOCHS, train=train)
    made.max_grad_norm(case["clip"]).precision(case["precision"]).run_dir(folder).resume("auto")
    if case["ema"]:
        made.ema(case["ema"])
    if case["cosine"]:
        made.scheduler(CosineScheduler(1e-2, 1e-3, EPOCHS * UNITS // case["accumulate"] + 1))
    if case["evaluate"]:
        made.evaluate(data(), batch_size=16)
    return made


def train_in_legs(number, case, folder):
    """Train a case, with deaths in each leg; return the state and the number of deaths."""
    draw = random.Random(-number)
    deaths = 0
    for leg, ranks in enumerate(case["legs"]):
        doomed = draw.sample(range(ranks), draw.randint(0, ranks - 1))
        calls = {rank: draw.randint(1, 12) for rank in doomed}
        train = Deadly(calls, folder / f"deaths-{leg}")
        made = configured(ranks, case, train, folder / "run").on("start", train.note_rank)
        if leg < len(case["stops"]):
            made.max_steps(case["stops"][leg])
        state = made.run().join()
        deaths += len(list(train.folder.iterdir()))
    return state, deaths


@pytest.mark.torch
@pytest.mark.campaign(
    "exact", covers=("flodl/train/sync", "flodl/distributed/team", "flodl/step/eager.py")
)
def test_exact_campaign_of_random_trainings(campaign, tmp_path):
    outcomes = {"without a death": 0, "with deaths": 0}
    deaths, resumes, longest = 0, 0, 0.0
    for number in range(CASES):
        case = drawn(number)
        wanted = configured(1, case, loss_of, tmp_path / f"{number}-alone").run().join()
        start = time.perf_counter()
        found, died = train_in_legs(number, case, tmp_path / str(number))
        longest = max(longest, time.perf_counter() - start)
        assert digest(found) == digest(wanted), (number, case)
        for name, each in wanted.averages.items():
            assert torch.equal(found.averages[name], each), (number, case)
        assert found.history[-1].scalars == wanted.history[-1].scalars, (number, case)
        outcomes["with deaths" if died else "without a death"] += 1
        deaths, resumes = deaths + died, resumes + len(case["legs"]) - 1
    worst = {"deaths": deaths, "resumes": resumes, "seconds": round(longest, 1)}
    campaign.write(seed=0, cases=CASES, outcomes=outcomes, worst=worst)
