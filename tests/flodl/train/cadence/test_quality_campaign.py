"""What two unequal devices learn by policy cadence, beside one device with as many epochs."""

import statistics

import pytest

from tests.flodl.train.cadence.quality_jobs import MODELS, accuracy

SEEDS = (0, 1, 2)


@pytest.mark.torch
@pytest.mark.campaign("quality", covers=("flodl/train/cadence", "flodl/distributed/el_che.py"))
def test_quality_campaign_of_three_models(campaign):
    outcomes, worst = {}, {}
    for name in MODELS:
        one = [accuracy(name, seed, 1) for seed in SEEDS]
        two = [accuracy(name, seed, 2) for seed in SEEDS]
        spread = max(one) - min(one)
        behind = statistics.fmean(one) - statistics.fmean(two)
        # Three seeds know their spread only roughly: at least a percent is allowed.
        assert behind <= max(spread, 0.01), (name, one, two)
        outcomes[f"{name}, one device: percent right"] = round(100 * statistics.fmean(one))
        outcomes[f"{name}, two devices: percent right"] = round(100 * statistics.fmean(two))
        worst[name] = round(behind, 4)
    campaign.write(seed=0, cases=2 * len(MODELS) * len(SEEDS), outcomes=outcomes, worst=worst)
