"""Sums of gradients: the order of additions depends on units only."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flodl.train.sync.gradient_sums import GradientSums, blocks_of, units_by_rank

pytestmark = pytest.mark.torch


def sum_over(owners, size, exact):
    """Sum up random gradients of units, of which each has an owner."""
    weight = torch.zeros(17, requires_grad=True)
    ranks = [
        [unit for unit, owner in enumerate(owners) if owner == rank]
        for rank in range(max(owners) + 1)
    ]
    held = []
    for units in ranks:
        sums = GradientSums([weight], size, exact)
        for unit in units:
            weight.grad = torch.randn(17, generator=torch.Generator().manual_seed(unit))
            sums.take(unit)
        held.append(sums)
    whole = GradientSums([weight], size, exact)
    for block in held[0].layout(ranks):
        whole.insert(block, [torch.stack([each.block(block)[0] for each in held]).sum(0)])
    return whole.total()[0]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_bits_are_those_of_one_rank_for_any_owners(owners):
    size = len(owners)
    assert torch.equal(sum_over(owners, size, "bits"), sum_over([0] * size, size, "bits"))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_sum_equals_the_sum_of_one_rank_up_to_rounding(owners):
    size = len(owners)
    torch.testing.assert_close(
        sum_over(owners, size, "sum"), sum_over([0] * size, size, "sum"), rtol=1e-5, atol=1e-5
    )


def test_tree_adds_neighbours_first():
    weight = torch.zeros(1, requires_grad=True)
    values = [1e8, 1.0, -1e8, 1.0]
    sums = GradientSums([weight], 4, "bits")
    for unit, value in enumerate(values):
        weight.grad = torch.tensor([value])
        sums.take(unit)
    numbers = [torch.tensor(value) for value in values]
    wanted = (numbers[0] + numbers[1]) + (numbers[2] + numbers[3])
    assert sums.total()[0].item() == wanted.item() != sum(numbers).item()


@given(st.sets(st.integers(0, 30)), st.integers(31, 40))
def test_blocks_cover_exactly_the_units(units, size):
    covered = [
        unit
        for start, level in blocks_of(units, size)
        for unit in range(start, min(start + (1 << level), size))
    ]
    assert sorted(covered) == sorted(units)


def test_unfinished_update_continues_from_its_state():
    weight = torch.zeros(3, requires_grad=True)

    def fill(sums, units):
        for unit in units:
            weight.grad = torch.randn(3, generator=torch.Generator().manual_seed(unit))
            sums.take(unit)
        return sums

    whole = fill(GradientSums([weight], 7, "bits"), range(7)).total()
    first = fill(GradientSums([weight], 7, "bits"), range(5))
    second = GradientSums([weight], 7, "bits")
    second.load_state_dict(first.state_dict())
    assert torch.equal(fill(second, range(5, 7)).total()[0], whole[0])


def test_units_by_rank_lists_single_units():
    assert units_by_rank({1: [(4, 6)], 0: [(0, 2), (8, 9)]}) == [[0, 1, 8], [4, 5]]
