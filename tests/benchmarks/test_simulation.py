"""Simulated trainings: the arithmetic is right on cases computed by hand, and the bars hold."""

import random

import pytest

from benchmarks.simulation import Cluster, Simulation, many, simulate
from flodl.distributed import ApplyPolicy, ElChe, WindowPlanner

TWO = Cluster(paces=(0.010, 0.025), sync=0.0023, control=0.0)


def test_ideal_of_constant_speeds_is_the_sum_of_the_speeds():
    assert TWO.ideal_seconds(140) == pytest.approx(1.0)


def test_ideal_with_a_change_and_a_death_is_piecewise():
    cluster = Cluster(paces=(0.01, 0.01), changes={1: (2.0, 10.0)}, deaths={0: 3.0})
    # 200 units a second for 2 s, then 110 for 1 s, then 10.
    assert cluster.ideal_seconds(400) == pytest.approx(2.0)
    assert cluster.ideal_seconds(510) == pytest.approx(3.0)
    assert cluster.ideal_seconds(520) == pytest.approx(4.0)
    with pytest.raises(ValueError, match="all ranks are dead"):
        Cluster(paces=(0.01,), deaths={0: 1.0}).ideal_seconds(1000)


@pytest.mark.parametrize(
    ("accumulate", "share"), [(2, 0.64), (4, 0.88), (7, 0.96), (14, 0.98), (28, 0.99)]
)
def test_exact_updates_reach_the_predicted_share(accumulate, share):
    found = simulate(TWO, accumulate * 500, ApplyPolicy.SYNC, accumulate=accumulate)
    assert found.windows == 500
    assert found.share == pytest.approx(share, abs=0.006)


def test_windows_without_noise_take_what_their_counts_take():
    # 10 and 4 units in 100 ms, and 2.3 ms for an averaging: 14 of the 14.32 units that are possible.
    found = simulate(TWO, 14_000)
    assert found.share == pytest.approx(14 / 14.322, abs=0.001)


def test_same_seed_gives_the_same_training_and_another_does_not():
    cluster = many(8, noise=0.1)
    first = simulate(cluster, 2000, seed=1)
    assert simulate(cluster, 2000, seed=1) == first
    assert simulate(cluster, 2000, seed=2) != first


def test_overlapped_windows_wait_for_nothing():
    cluster = Cluster(paces=(0.010, 0.017, 0.025), noise=0.05)
    assert simulate(cluster, 8000, ApplyPolicy.ASYNC).share >= 0.99


def test_stalls_cost_less_where_windows_overlap():
    cluster = Cluster(paces=(0.02, 0.02, 0.03, 0.05), noise=0.1, stall_rate=0.01)
    assert simulate(cluster, 6000).share >= 0.88
    assert simulate(cluster, 6000, ApplyPolicy.ASYNC).share >= 0.91


@pytest.mark.parametrize("policy", [ApplyPolicy.CADENCE, ApplyPolicy.ASYNC])
def test_rank_that_slows_ten_times_costs_little_of_the_piecewise_ideal(policy):
    cluster = Cluster(paces=(0.010, 0.010), noise=0.02, changes={1: (2.0, 10.0)})
    assert simulate(cluster, 2000, policy).share >= 0.80


def test_rank_that_dies_loses_its_open_window_alone():
    cluster = Cluster(paces=(0.010, 0.010, 0.020, 0.025), noise=0.05, deaths={1: 2.0})
    found = simulate(cluster, 4000)
    assert 0 < found.lost < 100
    assert found.share >= 0.93


@pytest.mark.parametrize("policy", list(ApplyPolicy))
def test_windows_with_many_deaths_lose_no_unit(policy):
    draw = random.Random(3)
    deaths = {rank: draw.expovariate(1 / 8.0) for rank in range(1, 12)}
    cluster = Cluster(
        paces=tuple(draw.uniform(0.01, 0.05) for _ in range(12)), noise=0.1, deaths=deaths
    )
    planner = WindowPlanner(5000, range(12), policy=policy, accumulate=40)
    found = Simulation(cluster, planner).run()
    assert planner.ledger.ranges == ((0, 5000),)
    assert found.lost > 0


@pytest.mark.slow
def test_ten_thousand_windows_with_deaths_lose_no_unit():
    draw = random.Random(5)
    deaths = {rank: draw.expovariate(1 / 60.0) for rank in range(1, 8)}
    cluster = Cluster(paces=(0.01,) * 8, noise=0.1, deaths=deaths)
    planner = WindowPlanner(60_000, range(8), el_che=ElChe(max_anchor=1))
    found = Simulation(cluster, planner).run()
    assert found.windows > 10_000
    assert planner.ledger.ranges == ((0, 60_000),)


@pytest.mark.slow
def test_cadence_of_a_thousand_ranks_with_noise_reaches_its_bar():
    assert simulate(many(1024, noise=0.05), 1024 * 1000).share >= 0.94


@pytest.mark.slow
def test_overlapped_windows_of_a_thousand_ranks_with_stalls_reach_their_bar():
    cluster = many(1024, noise=0.05, stall_rate=1 / 500)
    assert simulate(cluster, 1024 * 2000, ApplyPolicy.ASYNC).share >= 0.97
