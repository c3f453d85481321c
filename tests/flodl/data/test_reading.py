"""Threads and processes that read: their errors, their end, and what they draw."""

import gc
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch.utils import data as torch_data

from flodl import DataLoader

ROOT = Path(__file__).parents[3]


class Broken(torch_data.Dataset):
    """Sample 7 cannot be read."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if index == 7:
            raise ValueError("the file is damaged")
        return torch.tensor(index)


class BrokenMany(Broken):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Slow(torch_data.Dataset):
    """Counts what is read, and takes its time."""

    def __init__(self, seconds=0.0):
        self.read = []
        self.seconds = seconds

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(self.seconds)
        self.read.append(index)
        return torch.tensor(index)


class Random(torch_data.Dataset):
    """Augments, like most data sets of pictures."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index + torch.rand(2), random.random()


class RandomStream(torch_data.IterableDataset):
    """Shuffles in a buffer."""

    def __iter__(self):
        items = list(range(12))
        while items:
            yield torch.tensor(items.pop(random.randrange(len(items)))) + torch.rand(1)


def threads():
    return [each for each in threading.enumerate() if each.name == "flodl-data"]


def gone(patience=5.0):
    gc.collect()
    end = time.monotonic() + patience
    while threads() and time.monotonic() < end:
        time.sleep(0.01)
    return threads() == []


def until(condition, patience=20.0):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def notes(caught):
    return " ".join(caught.value.__notes__)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_says_which_sample_of_which_data_set(prefetch):
    loader = DataLoader(Broken(), 5, shuffle=False, mode="streaming", prefetch=prefetch)
    batches = loader.epoch(0)
    assert next(batches)[0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="damaged") as caught:
        next(batches)
    assert "sample 7 of Broken" in notes(caught)
    assert "batch 1 of epoch 0" in notes(caught)
    assert gone()


def test_an_error_of_a_batched_read_names_the_samples():
    loader = DataLoader(BrokenMany(), 5, shuffle=False, mode="streaming", prefetch=0)
    with pytest.raises(ValueError, match="damaged") as caught:
        list(loader.epoch(3, 1))
    assert "samples 5, 6, 7, 8, 9 of BrokenMany" in notes(caught)


def test_a_data_set_that_breaks_while_it_is_looked_at_is_read_in_its_turn():
    loader = DataLoader(torch_data.Subset(Broken(), [7] * 4), 2)
    assert "cannot be read" in loader.decision
    with pytest.raises(ValueError, match="damaged"):
        next(loader.epoch(0))


def test_a_stream_that_breaks():
    def items():
        yield torch.zeros(1)
        raise OSError("the connection was lost")

    with pytest.raises(OSError, match="lost") as caught:
        list(DataLoader(items(), 1, mode="streaming").epoch(0))
    assert "batch 1 of epoch 0 of generator" in notes(caught)


def test_only_so_many_batches_are_read_ahead():
    dataset = Slow()
    loader = DataLoader(dataset, 10, mode="streaming", prefetch=3, shuffle=False)
    assert loader.mode == "streaming"
    probed = len(dataset.read)
    batches = loader.epoch(0)
    next(batches)
    # one handed out, three waiting, one that waits for room
    until(lambda: len(dataset.read) - probed >= 50)
    time.sleep(0.05)
    assert len(dataset.read) - probed == 50
    batches.close()


@pytest.mark.parametrize("how", ["closed", "dropped", "finished"])
def test_an_epoch_that_nobody_reads_any_more_ends(how):
    batches = DataLoader(Slow(0.0001), 50, mode="streaming").epoch(0)
    next(batches)
    assert len(threads()) == 1
    match how:
        case "closed":
            batches.close()
            assert list(batches) == []
        case "dropped":
            del batches
        case "finished":
            assert len(list(batches)) == 19
    assert gone()


def test_a_wait_ends_when_another_thread_closes_the_epoch():
    """This is what a signal handler does while the data stall."""
    release = threading.Event()
    release.set()

    class Stalls(Slow):
        def __getitem__(self, index):
            assert release.wait(60)
            return super().__getitem__(index)

    loader = DataLoader(Stalls(), 5, mode="streaming")
    assert loader.mode == "streaming"
    release.clear()
    batches = loader.epoch(0)
    threading.Timer(0.05, batches.close).start()
    assert list(batches) == []
    assert not release.is_set()
    release.set()
    assert gone()


def test_the_depth_can_be_changed_while_reading():
    dataset = Slow()
    loader = DataLoader(dataset, 10, mode="streaming", prefetch=1, shuffle=False)
    batches = loader.epoch(0)
    next(batches)
    loader.set_prefetch_depth(20)
    until(lambda: len(dataset.read) >= 200)
    assert loader.prefetch_depth == 20
    assert loader.auto_resize() == loader.prefetch_depth == 2
    batches.close()


def test_many_epochs_at_once():
    loader = DataLoader(list(range(100)), 10, mode="streaming")
    together = list(zip(loader.epoch(0), loader.epoch(1), loader.epoch(0), strict=True))
    assert all(torch.equal(a[0], c[0]) for a, _, c in together)
    assert not all(torch.equal(a[0], b[0]) for a, b, _ in together)
    assert gone()


# ---- what samples draw ------------------------------------------------------------------------


def drawn(loader, epoch=0, start=0):
    return [[part.tolist() for part in batch] for batch in loader.epoch(epoch, start)]


@pytest.mark.parametrize("dataset", [Random(), RandomStream()], ids=["index", "stream"])
def test_random_samples_are_a_function_of_the_position_too(dataset):
    loader = DataLoader(dataset, 3)
    torch.manual_seed(1)
    whole = drawn(loader, 4)
    torch.manual_seed(2)
    random.seed(9)
    assert drawn(DataLoader(dataset, 3), 4) == whole
    assert drawn(loader, 4, 2) == whole[2:]
    assert drawn(loader, 5) != whole


@pytest.mark.parametrize("dataset", [Random(), RandomStream()], ids=["index", "stream"])
def test_reading_leaves_the_generators_of_the_program_alone(dataset):
    torch.manual_seed(1)
    random.seed(1)
    expected = (torch.rand(1), random.random())
    torch.manual_seed(1)
    random.seed(1)
    drawn(DataLoader(dataset, 3))
    assert (torch.rand(1), random.random()) == expected


def test_random_samples_are_kept_only_when_asked_for():
    random.seed(5)
    expected = random.random()
    random.seed(5)
    loader = DataLoader(Random(), 3, mode="resident", shuffle=False)
    assert (
        drawn(loader, 0)
        == drawn(loader, 1)
        == drawn(DataLoader(Random(), 3, mode="resident", shuffle=False))
    )
    assert random.random() == expected


def test_random_samples_are_never_kept():
    loader = DataLoader(Random(), 3)
    assert loader.mode == "streaming"
    assert "draws random numbers" in loader.decision
    assert drawn(loader, 0) != drawn(loader, 1)


def test_samples_that_change_by_themselves_are_never_kept():
    class Counts(Slow):
        def __getitem__(self, index):
            self.read.append(index)
            return torch.tensor(len(self.read))

    assert "different when it was read again" in DataLoader(Counts(), 4).decision


def test_what_takes_long_to_read_is_not_read_at_once():
    class Heavy(Slow):
        def __len__(self):
            return 10**6

    assert "takes about" in DataLoader(Heavy(0.0005), 4).decision


# ---- processes ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_processes_read_the_same(workers):
    whole = drawn(DataLoader(Random(), 3), 2)
    loader = DataLoader(Random(), 3, workers=workers, names=["x", "y"])
    assert drawn(loader, 2) == whole
    assert drawn(loader, 2, 2) == whole[2:]
    assert gone(30)


@pytest.mark.slow
def test_an_error_in_a_process_says_where():
    loader = DataLoader(Broken(), 5, shuffle=False, workers=1, mode="streaming")
    with pytest.raises(ValueError, match="sample 7 of Broken"):
        list(loader.epoch(0))
    assert gone(30)  # torch gives its processes five seconds after an error


# ---- samplers -----------------------------------------------------------------------------------


class Odd:
    def __len__(self):
        return 5

    def indices(self, epoch):
        return [1, 3, 5, 7, 9] if epoch % 2 else [9, 7, 5, 3, 1]


def test_a_sampler_of_the_program():
    loader = DataLoader(torch.arange(10), 2, sampler=Odd(), drop_last=False)
    assert [batch[0].tolist() for batch in loader.epoch(0)] == [[9, 7], [5, 3], [1]]
    assert [batch[0].tolist() for batch in loader.epoch(1, 1)] == [[5, 7], [9]]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch_data.RandomSampler(range(n)),
        lambda n: torch_data.WeightedRandomSampler(torch.ones(n), n),
        lambda n: torch_data.SubsetRandomSampler(range(n)),
        lambda n: torch_data.RandomSampler(range(n), generator=torch.Generator()),
        lambda n: torch_data.DistributedSampler(range(n), num_replicas=1, rank=0),
    ],
    ids=["random", "weighted", "subset", "own generator", "distributed"],
)
def test_samplers_of_torch_become_functions_of_seed_and_epoch(make):
    loader = DataLoader(torch.arange(50), 10, sampler=make(50))
    torch.manual_seed(3)
    one = [batch[0].tolist() for batch in loader.epoch(1)]
    assert [batch[0].tolist() for batch in loader.epoch(2)] != one
    again = DataLoader(torch.arange(50), 10, sampler=make(50))
    assert [batch[0].tolist() for batch in again.epoch(1, 2)] == one[2:]


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["mode='streaming'", "workers=1"])
def test_a_program_may_end_in_the_middle_of_an_epoch(settings, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.flodl.data.test_reading import Slow, Random\n"
        "from flodl import DataLoader\n"
        f"loader = DataLoader({'Random()' if 'workers' in settings else 'Slow(0.01)'}, 2, {settings})\n"
        "batches = loader.epoch(0)\n"
        "print(next(batches)[0].shape[0])\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
