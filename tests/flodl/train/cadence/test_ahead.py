"""Batches made ahead by workers: what is read is what is at the place, whatever is cut again in between."""

import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from flodl.train.cadence.ahead import AheadUnits
from flodl.train.sync.units import seed_generators
from tests.flodl.train.cadence import window_jobs
from tests.flodl.train.cadence.test_cadence_training import require_each_batch_once
from tests.flodl.train.cadence.window_jobs import builder

pytestmark = pytest.mark.torch
SAMPLES = 200
CPU = torch.device("cpu")


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([index, os.getpid()])


def units_of(shuffle=True, workers=2, **options):
    loader = DataLoader(Numbers(), 4, shuffle=shuffle, num_workers=workers, **options)
    units = AheadUnits(loader, CPU)
    seed_generators(0, 0)
    units.begin(0)
    return units


def samples(units, positions):
    return [units.read(place)[:, 0].tolist() for place in positions]


def test_batches_are_made_by_workers_in_the_order_of_the_epoch():
    units = units_of(shuffle=False, persistent_workers=True, prefetch_factor=3)
    units.expect([(10, 50)])
    found = [units.read(place) for place in range(10, 14)]
    assert [each[:, 0].tolist() for each in found] == [
        list(range(4 * place, 4 * place + 4)) for place in range(10, 14)
    ]
    workers = {int(pid) for each in found for pid in each[:, 1]}
    assert len(workers) == 2
    assert os.getpid() not in workers
    assert units.ready(0, 10**9) == 50


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, 45), st.integers(1, 20), st.integers(0, 6)),
        min_size=1,
        max_size=6,
    )
)
def test_stretches_may_be_cut_again_at_any_time(cuts):
    units = units_of(workers=1)
    order = list(units._plain.order)
    for start, length, reads in cuts:
        stop = min(start + length, 50)
        units.expect([(start, stop), (48, 50)] if stop < 48 else [(start, stop)])
        places = range(start, min(start + reads, stop))
        assert samples(units, places) == [order[place] for place in places]


def test_reading_to_the_end_and_on_begins_new_workers():
    units = units_of(workers=1)
    order = list(units._plain.order)
    for part in ((0, 2), (2, 3), (40, 50)):
        units.expect([part])
        assert samples(units, range(*part)) == [order[place] for place in range(*part)]
    seed_generators(0, 1)
    units.begin(1)
    assert units._plain.order != order
    units.expect([(0, 50)])
    assert samples(units, range(3)) == units._plain.order[:3]


class Pairs(Dataset):
    def __len__(self):
        return window_jobs.BATCHES * window_jobs.SAMPLES

    def __getitem__(self, index):
        inputs, wanted, number = window_jobs.data()[index // window_jobs.SAMPLES]
        place = index % window_jobs.SAMPLES
        return inputs[place], wanted[place], number


def collate(samples):
    inputs, wanted, numbers = zip(*samples, strict=True)
    return torch.stack(inputs), torch.stack(wanted), numbers[0]


@pytest.mark.slow
def test_ranks_with_workers_train_each_batch_once(tmp_path):
    loader = DataLoader(Pairs(), window_jobs.SAMPLES, num_workers=1, collate_fn=collate)
    state = builder(tmp_path, 2, batches=loader).run().join()
    require_each_batch_once(state, 2)
