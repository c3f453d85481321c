"""Worker processes of a loader that end as soon as they are not needed, even within a sample."""

import os
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset, get_worker_info

from flodl.data.loader import DataLoader

pytestmark = [pytest.mark.torch, pytest.mark.slow]


class Stuck(Dataset):
    """Its later samples never come, in a worker."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index >= 8 and get_worker_info() is not None:
            time.sleep(600)
        return torch.tensor([float(index)])


def alive():
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = [
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children
    ]
    return [pid for pid, state in zip(children, states, strict=True) if state != "Z"]


@pytest.mark.parametrize("how", ["close", "forget"])
def test_loader_workers_in_the_middle_of_a_sample_end_with_the_iterator(how):
    before = alive()
    loader = DataLoader(Stuck(), 4, shuffle=False, mode="streaming", workers=2)
    batches = iter(loader)
    next(batches)
    assert len(alive()) == len(before) + 2
    if how == "close":
        batches.close()
    else:
        del batches
    limit = time.monotonic() + 60
    while len(alive()) > len(before) and time.monotonic() < limit:
        time.sleep(0.05)
    assert alive() == before
