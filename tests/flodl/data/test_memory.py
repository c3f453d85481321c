"""What fits on a device, how far to read ahead, and what happens when it did not fit after all."""

import pytest
import torch

from flodl import DataLoader
from flodl.data import choosing, memory, resident
from flodl.data import loader as loader_module

GIB = 2**30
CUDA = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    """Pretend a GPU of 10 GiB; the function says how much is free, in use by torch, and its peak."""

    def fill(free, *, allocated=0, reserved=0, peak=0):
        # (free, total), in this order: the original read it as (used, total).
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10 * GIB))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: reserved)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: peak)

    return fill


def test_an_empty_gpu_is_empty_and_a_full_one_full(gpu):
    gpu(10 * GIB)
    assert memory.room_for(CUDA, 0.9) == 9 * GIB
    assert memory.prefetch_depth(CUDA, GIB, 0.9) == 9
    gpu(GIB)
    assert memory.room_for(CUDA, 0.9) == 0
    assert memory.prefetch_depth(CUDA, GIB, 0.9) == 1


def test_what_torch_has_reserved_and_does_not_use_is_free(gpu):
    gpu(2 * GIB, reserved=5 * GIB, allocated=GIB)
    assert memory.free_and_total(CUDA) == (6 * GIB, 10 * GIB)


def test_a_step_keeps_the_memory_that_it_needed_at_its_peak(gpu):
    gpu(8 * GIB, allocated=2 * GIB, reserved=2 * GIB, peak=6 * GIB)
    assert memory.prefetch_depth(CUDA, GIB, 0.9) == 3


def test_the_depth_has_bounds(gpu):
    gpu(10 * GIB)
    assert memory.prefetch_depth(CUDA, 1, 0.9) == 64
    assert memory.prefetch_depth(CUDA, 100 * GIB, 0.9) == 1
    assert memory.prefetch_depth(CUDA, 0, 0.9) == 4  # the size of a batch is not known
    assert memory.prefetch_depth(torch.device("cpu"), 1, 0.9) == 2


@pytest.mark.parametrize(("free", "mode"), [(10 * GIB, True), (GIB, False)])
def test_resident_if_it_fits(gpu, free, mode):
    gpu(free)
    source = loader_module.source_of(torch.empty(GIB // 4).expand(2, -1))
    choice = choosing.choose(source, "auto", CUDA, 0.9)
    assert choice.resident is mode
    assert "2.0 GiB" in choice.why
    assert ("fit" in choice.why) is not mode


def test_the_host_has_memory():
    free, total = memory.host_free_and_total()
    assert 0 < free <= total


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.host_free_and_total() == (600_000, 1_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.host_free_and_total()[1] > 10**6


class Backwards:
    def __len__(self):
        return 10

    def indices(self, epoch):
        return list(range(9, -1, -1))


def out_of_memory(*_):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory.")


def cannot_allocate(*_):
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ...")


ERRORS = pytest.mark.parametrize("error", [out_of_memory, cannot_allocate])
ORDERS = pytest.mark.parametrize(
    "order",
    [{"seed": 9}, {"shuffle": False}, {"sampler": Backwards()}],
    ids=["seed", "in order", "sampler"],
)


def contents(batches):
    return [batch[0].tolist() for batch in batches]


@ERRORS
@ORDERS
def test_without_memory_for_the_set_it_is_streamed_in_the_same_order(monkeypatch, error, order):
    expected = contents(DataLoader(torch.arange(10), 3, **order).epoch(2))
    monkeypatch.setattr(resident, "load", error)
    loader = DataLoader(torch.arange(10), 3, **order)
    assert loader.mode == "resident"
    sampler = loader.sampler
    assert contents(loader.epoch(2)) == expected
    assert loader.mode == "streaming"
    assert "did not fit" in loader.decision
    assert loader.sampler is sampler
    assert contents(loader.epoch(2, 1)) == expected[1:]


@ORDERS
def test_without_memory_for_a_batch_the_epoch_goes_on_where_it_was(monkeypatch, order):
    expected = contents(DataLoader(torch.arange(10), 3, **order).epoch(2))
    loader = DataLoader(torch.arange(10), 3, **order)
    batches = loader.epoch(2)
    assert next(batches)[0].tolist() == expected[0]
    batches._tensors = (Full(),)
    assert contents(batches) == expected[1:]
    assert loader.mode == "streaming"
    assert "beside the data set" in loader.decision
    assert batches.position == 3


class Full:
    def index_select(self, *_):
        out_of_memory()


def test_another_error_is_not_taken_for_one_of_memory(monkeypatch):
    def broken(*_):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(resident, "load", broken)
    with pytest.raises(RuntimeError, match="fire"):
        next(DataLoader(torch.arange(10), 3, mode="resident").epoch(0))
    loader = DataLoader(torch.arange(10), 3)
    assert len(contents(loader.epoch(0))) == 3
    assert "cannot be read as a whole: the disk is on fire" in loader.decision


def test_a_full_device_is_emptied_of_what_was_read_ahead(monkeypatch):
    loader = DataLoader(torch.arange(20), 2, mode="streaming", prefetch=4, shuffle=False)
    failures = [torch.OutOfMemoryError("CUDA out of memory.")]
    transfer = loader._transfer

    def full_once(tensors):
        if tensors[0][0] == 6 and failures:
            raise failures.pop()
        return transfer(tensors)

    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    loader._transfer = full_once
    assert contents(loader.epoch(0))[3] == [6, 7]
    assert failures == []
    assert emptied == [True]


def test_uneven_samples_cannot_be_kept():
    seen = [(torch.zeros(2 if index == 4 else 1),) for index in range(9)]
    assert "different shapes" in DataLoader(seen, 1).decision
    unseen = [(torch.zeros(2 if index == 3 else 1),) for index in range(9)]
    for ragged in (seen, unseen):
        loader = DataLoader(ragged, 1, shuffle=False)
        sizes = [len(batch[0][0]) for batch in loader.epoch(0)]
        assert sizes == [len(item[0]) for item in ragged]
        assert loader.mode == "streaming"
