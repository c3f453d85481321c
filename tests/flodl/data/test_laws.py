"""Laws of orders and loaders, on random sizes, seeds and positions."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flodl import DataLoader, RandomSampler
from flodl.data import order
from flodl.data.samplers import EpochOrder

LARGE = order.RANKED_UP_TO
sizes = st.one_of(st.integers(1, 300), st.integers(LARGE - 2, LARGE + 300))
keys = st.integers(-(2**70), 2**70)


@settings(max_examples=20)
@given(sizes, keys)
def test_an_order_is_a_permutation(n, key):
    whole = order.permuted(n, key, 0, n)
    assert torch.equal(whole.sort().values, torch.arange(n))


@given(st.integers(1, 10**12), keys, st.data())
def test_a_part_of_an_order_needs_no_other_part(n, key, data):
    start = data.draw(st.integers(0, n - 1))
    middle = data.draw(st.integers(start, min(n, start + 50)))
    stop = data.draw(st.integers(middle, min(n, middle + 50)))
    whole = order.permuted(n, key, start, stop).tolist()
    parts = [order.permuted(n, key, start, middle), order.permuted(n, key, middle, stop)]
    assert torch.cat(parts).tolist() == whole
    assert len(set(whole)) == len(whole)
    assert all(0 <= index < n for index in whole)


@given(st.integers(0, 2**64), st.integers(0, 2**64))
def test_seeds_and_epochs_are_not_mixed_up(seed, epoch):
    assert order.mix(seed, epoch) != order.mix(epoch + 1, seed)
    assert order.mix(seed, epoch) != order.mix(seed, epoch + 1)


def test_large_orders_are_frozen():
    assert order.permuted(10**9, 7, 5 * 10**8, 5 * 10**8 + 4).tolist() == FROZEN


FROZEN = [931427543, 551922648, 250964304, 459153329]


def test_an_order_looks_random():
    """Neighbours are no nearer than chance would have them, and positions say nothing."""
    n = LARGE + 10_000
    one = order.permuted(n, order.mix(1, 0), 0, n).double()
    two = order.permuted(n, order.mix(1, 1), 0, n).double()
    place = torch.arange(n).double()
    for pair in ((one[1:], one[:-1]), (one, place), (one, two)):
        assert abs(torch.corrcoef(torch.stack(pair))[0, 1].item()) < 5 / n**0.5
    assert (one == two).sum() < 10
    counts = torch.histc(one[: n // 10], bins=100, min=0, max=n)
    expected = n / 1000
    assert ((counts - expected) ** 2 / expected).sum() < 160  # chi square, 99 degrees of freedom


def test_every_order_of_a_few_is_reached():
    seen = {tuple(order.permuted(3, key, 0, 3).tolist()) for key in range(200)}
    assert len(seen) == 6


@given(
    n=st.integers(1, 200),
    batch_size=st.integers(1, 40),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 1000),
    drop_last=st.booleans(),
    shuffle=st.booleans(),
    start=st.integers(0, 200),
)
def test_batches_are_a_function_of_seed_epoch_and_position(
    n, batch_size, seed, epoch, drop_last, shuffle, start
):
    batch_size = min(batch_size, n)
    options = {"seed": seed, "drop_last": drop_last, "shuffle": shuffle}
    loader = DataLoader(torch.arange(n), batch_size, **options)
    batches = [batch[0].tolist() for batch in loader.epoch(epoch)]
    flat = [index for batch in batches for index in batch]
    assert len(batches) == len(loader)
    assert len(set(flat)) == len(flat) == (n // batch_size * batch_size if drop_last else n)
    start = min(start, len(batches))
    other = DataLoader(list(range(n)), batch_size, mode="streaming", prefetch=0, **options)
    assert [batch[0].tolist() for batch in other.epoch(epoch, start)] == batches[start:]


@given(
    st.integers(LARGE + 1, 10**7), st.integers(1, 3000), st.lists(st.integers(0, 60), max_size=5)
)
def test_windows_do_not_show(n, size, positions):
    sampler = RandomSampler(n, 3)
    windowed = EpochOrder(sampler, 2)
    for position in positions:
        begin = min(position * size, n - 1)
        end = min(begin + size, n)
        assert torch.equal(windowed.take(begin, end), sampler.slice(2, begin, end))


def test_epoch_of_huge_set_begins_anywhere_without_visiting_the_rest():
    n = 10**13  # as indices 80 TB, and days of counting

    class Nothing:
        def __len__(self):
            return n

        def get_batch(self, indices):
            return torch.tensor(indices)

    loader = DataLoader(Nothing(), 1, mode="streaming", prefetch=0)
    for epoch in range(5):
        (indices,) = next(loader.epoch(epoch, start=n - n // 10))
        (index,) = indices.tolist()
        assert 0 <= index < n
