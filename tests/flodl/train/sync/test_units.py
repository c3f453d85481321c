"""Batches by place: the same as those that an epoch gives one after the other."""

import random

import pytest
import torch

from flodl import DataError, DataLoader
from flodl.train.sources import source_of
from flodl.train.sync.units import SequentialUnits, seed_generators, units_of

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


class Noisy(torch.utils.data.Dataset):
    """Samples with noise from the generators of torch and Python."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.tensor([index, random.random(), torch.rand(()).item()])


class Stream:
    def __iter__(self):
        return (torch.full((2,), float(each)) + torch.rand(2) for each in range(5))


def equal(first, second):
    return all(torch.equal(one, two) for one, two in zip(first, second, strict=True))


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "streaming"}, {"shuffle": False}, {"drop_last": False}, {"workers": 1}],
    ids=str,
)
def test_batch_at_equals_the_batch_of_an_epoch(options):
    loader = DataLoader([torch.arange(11.0), torch.arange(11)], 4, **options)
    for epoch in (0, 3):
        wanted = list(loader.epoch(epoch))
        for position in (1, 0, 1, len(wanted) - 1):
            assert equal(loader.batch_at(epoch, position), wanted[position])


def test_batch_at_of_noisy_samples_equals_the_batch_of_an_epoch():
    loader = DataLoader(Noisy(), 3)
    wanted = list(loader.epoch(2))
    torch.manual_seed(5)  # what happens around does not matter
    assert equal(loader.batch_at(2, 1), wanted[1])
    assert equal(loader.batch_at(2, 0), wanted[0])


@pytest.mark.parametrize("place", [(0, 3), (0, -1), (-1, 0)])
def test_batch_at_a_place_that_is_not_there_is_refused(place):
    with pytest.raises(DataError, match="there is no batch"):
        DataLoader([torch.arange(12)], 4).batch_at(*place)


def test_batch_at_of_a_stream_is_refused():
    with pytest.raises(DataError, match="can only be read from its beginning"):
        DataLoader(Stream(), 4).batch_at(0, 0)


@pytest.mark.parametrize(
    "data",
    [
        [torch.full((2,), float(each)) for each in range(5)],
        torch.utils.data.DataLoader(Noisy(), 2, shuffle=True),
        DataLoader([torch.arange(10)], 2),
        Stream(),
    ],
    ids=["list", "torch", "flodl", "stream"],
)
def test_units_are_the_same_whatever_was_read_before(data):
    source = source_of(data, batch_size=None, seed=None, device=CPU)

    def read(positions, start=0):
        units = units_of(source, CPU)
        seed_generators(1, 0)
        units.begin(0)
        found = {}
        for first in range(start, 5, 2):
            count = units.ready(first, 2)
            assert count == min(2, 5 - first)
            for position in range(first, first + count):
                if position in positions:
                    seed_generators(7, position)
                    found[position] = units.read(position)
                    torch.rand(3)  # as a step would
        assert units.ready(5, 2) <= 0
        return found

    whole = read(range(5))
    assert set(whole) == set(range(5))
    for part in (read([0, 3]), read([1, 2, 4]), read([2, 4], start=2)):
        assert all(equal(list(each), list(whole[place])) for place, each in part.items())


def test_sequential_units_say_that_all_ranks_read_all():
    source = source_of(Stream(), batch_size=None, seed=None, device=CPU)
    units = units_of(source, CPU)
    assert isinstance(units, SequentialUnits)
    assert "every rank reads all" in units.decision
