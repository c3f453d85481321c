"""Random numbers of our own: fixed for ever by the seed, well distributed, and clonable."""

import io
import random
import statistics

import numpy as np
import pytest
import torch

from flodl.nn.rng import Rng, cuda_manual_seed_all, manual_seed, seed_all

pytestmark = pytest.mark.torch


def test_numbers_of_a_seed_never_change():
    rng = Rng.seed(42)
    items = list(range(8))
    rng.shuffle(items)
    assert items == [3, 4, 6, 7, 2, 5, 0, 1]
    assert (rng.usize(1000), rng.range(-5, 5), rng.bernoulli(0.5)) == (754, -4, False)
    assert (rng.f64(), rng.f32()) == (0.8921795677048454, 0.08693879842758179)
    assert rng.normal() == pytest.approx(1.3097077311538443, rel=1e-12)


def test_shuffle_is_a_permutation_and_every_order_is_as_likely():
    counts = {}
    rng = Rng.seed(0)
    for _ in range(6000):
        items = [1, 2, 3]
        rng.shuffle(items)
        assert sorted(items) == [1, 2, 3]
        counts[tuple(items)] = counts.get(tuple(items), 0) + 1
    assert len(counts) == 6
    assert all(850 < each < 1150 for each in counts.values())


def test_distributions():
    rng = Rng.seed(1)
    normal = [rng.normal(3.0, 2.0) for _ in range(20_000)]
    assert abs(statistics.mean(normal) - 3.0) < 0.05
    assert abs(statistics.stdev(normal) - 2.0) < 0.05
    assert abs(sum(rng.bernoulli(0.3) for _ in range(20_000)) / 20_000 - 0.3) < 0.02
    assert {rng.usize(3) for _ in range(100)} == {0, 1, 2}
    assert {rng.range(5, 7) for _ in range(100)} == {5, 6}
    small = [rng.f32() for _ in range(1000)]
    assert all(0 <= each < 1 and float(torch.tensor(each)) == each for each in small)


def test_a_clone_continues_the_same_way():
    rng = Rng.seed(2)
    rng.f64()
    twin = rng.clone()
    assert [rng.f64() for _ in range(5)] == [twin.f64() for _ in range(5)]


def test_state_is_saved():
    rng = Rng.seed(3)
    rng.f64()
    file = io.BytesIO()
    rng.save_state(file)
    other = Rng.from_entropy()
    other.load_state(io.BytesIO(file.getvalue()))
    assert [rng.f64() for _ in range(5)] == [other.f64() for _ in range(5)]


def test_entropy_differs():
    assert Rng.from_entropy().f64() != Rng.from_entropy().f64()


def test_what_has_no_answer_is_refused():
    rng = Rng.seed(0)
    for call in (lambda: rng.usize(0), lambda: rng.range(3, 3), lambda: rng.bernoulli(1.1)):
        with pytest.raises(ValueError, match=r"integer|empty|probability"):
            call()


def test_seed_all_reaches_every_generator():
    def draw():
        rng = seed_all(7)
        return torch.rand(1).item(), random.random(), np.random.rand(), rng.f64()

    assert draw() == draw()


def test_the_seed_decides_initial_weights():
    manual_seed(4)
    first = torch.nn.Linear(3, 3).weight
    manual_seed(4)
    assert torch.equal(first, torch.nn.Linear(3, 3).weight)
    cuda_manual_seed_all(4)
