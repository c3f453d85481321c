"""What only a GPU can show: copies that overlap, memory that runs out, the same order as on the host."""

import pytest
import torch

from flodl import DataLoader
from flodl.data import memory

pytestmark = pytest.mark.gpu


def test_free_memory_is_the_first_number():
    device = torch.device("cuda", 0)
    torch.cuda.empty_cache()
    free, total = memory.free_and_total(device)
    block = torch.empty(2**30, dtype=torch.uint8, device=device)
    less, _ = memory.free_and_total(device)
    assert free - less == pytest.approx(2**30, rel=0.05)
    assert free < total
    del block


@pytest.mark.parametrize(
    "settings", [{}, {"mode": "streaming"}, {"mode": "streaming", "prefetch": 0}], ids=str
)
@pytest.mark.parametrize("n", [1000, 70_000])
def test_batches_are_those_of_the_host(settings, n):
    x = torch.randn(n, 64)
    here = DataLoader([x, torch.arange(n)], 100)
    there = DataLoader([x, torch.arange(n)], 100, device="cuda", **settings)
    assert there.mode == settings.get("mode", "resident")
    for batch, twin in zip(here.epoch(1), there.epoch(1), strict=True):
        assert twin[0].device.type == "cuda"
        # Work on the batch at once, while later copies go on: their memory must not be mixed up.
        total = twin[0].double().sum()
        assert torch.equal(batch[0], twin[0].cpu())
        assert total.item() == twin[0].double().sum().item()
        assert torch.equal(batch[1], twin[1].cpu())


def test_a_set_that_does_not_fit_is_streamed():
    total = torch.cuda.get_device_properties(0).total_memory
    large = torch.empty(1).expand(total // 4, 1)
    assert "do not fit" in DataLoader(large, 4, device="cuda").decision


def test_the_device_fills_up_while_loading():
    x = torch.randn(2**18, 256)  # 256 MiB
    expected = [batch[0][0, 0].item() for batch in DataLoader(x, 2**14).epoch(0)]
    torch.cuda.empty_cache()  # what the allocator keeps from earlier tests counts as free
    torch.cuda.set_per_process_memory_fraction(128 * 2**20 / torch.cuda.mem_get_info()[1])
    try:
        loader = DataLoader(x, 2**14, device="cuda", mode="resident", prefetch=2)
        assert [batch[0][0, 0].item() for batch in loader.epoch(0)] == expected
        assert "did not fit" in loader.decision
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
