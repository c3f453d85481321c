"""Sums of the gradients of a window, in an order that depends on unit numbers only, or on the ranks.

Example: 7 units; rank 0 holds units 0 to 2, rank 1 holds 3 to 6. `"bits"` adds up this tree:

    ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)

    rank 0   keeps 0 + 1 and 2          the largest aligned blocks that it holds
    rank 1   keeps 3 and (4 + 5) + 6
    all      get the four blocks, and add them up in the order of the tree

So each addition is named by unit numbers, and ranks, their speeds and their deaths do not change a bit.
`"sum"` keeps one sum on each rank, and adds these: less to send, and equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, final

import torch
from torch import Tensor

from flodl.train.settings import Exactness

Block: TypeAlias = tuple[int, int]  # first unit, and logarithm of the length


def blocks_of(units: Iterable[int], size: int) -> list[Block]:
    """Return the largest aligned blocks that consist of given units alone.

    Args:
        units: numbers from 0.
        size: units of the whole window; a block may reach beyond it.

    Example:
        >>> blocks_of([0, 1, 2], 7), blocks_of([3, 4, 5, 6], 7)
        ([(0, 1), (2, 0)], [(3, 0), (4, 2)])
    """
    found: set[Block] = set()
    for unit in sorted(units):
        block = (unit, 0)
        while (parent := _parent(block, size)) is not None:
            start, level = parent
            half = 1 << (level - 1)
            siblings = [(start, level - 1), (start + half, level - 1)]
            others = [each for each in siblings if each != block and each[0] < size]
            if not found.issuperset(others):
                break
            found.difference_update(others)
            block = parent
        found.add(block)
    return sorted(found)


def _parent(block: Block, size: int) -> Block | None:
    start, level = block
    if start == 0 and (1 << level) >= size:
        return None
    return start & -(2 << level), level + 1


@final
class GradientSums:
    """The gradients of the units that one rank holds.

    Args:
        parameters: what is trained.
        size: units of a whole accumulation.
        exact: `"bits"` or `"sum"`.

    Example:
        >>> weight = torch.zeros(1, requires_grad=True)
        >>> sums = GradientSums([weight], 4, "bits")
        >>> for unit in range(4):
        ...     weight.grad = torch.tensor([float(unit)])
        ...     sums.take(unit)
        >>> sums.layout([range(4)]), sums.total()
        ([(0, 2)], [tensor([6.])])
    """

    def __init__(self, parameters: Sequence[Tensor], size: int, exact: Exactness) -> None:
        self.exact = exact
        self._parameters = list(parameters)
        self._size = size
        self._blocks: dict[Block, list[Tensor | None]] = {}

    def take(self, unit: int) -> None:
        """Take the gradients of a unit from the parameters, which have none afterwards."""
        held = [each.grad for each in self._parameters]
        for each in self._parameters:
            each.grad = None
        self.insert((0, 0) if self.exact == "sum" else (unit, 0), held)

    def layout(self, ranks: Iterable[Iterable[int]]) -> list[Block]:
        """Return the blocks of a window, given the units of each rank."""
        if self.exact == "sum":
            return [(0, 0)]
        return sorted(block for units in ranks for block in blocks_of(units, self._size))

    def block(self, block: Block) -> list[Tensor]:
        """Return one block, zeros where this rank does not hold it."""
        held = self._blocks.get(block, [None] * len(self._parameters))
        return [
            torch.zeros_like(like, requires_grad=False) if each is None else each
            for each, like in zip(held, self._parameters, strict=True)
        ]

    def insert(self, block: Block, tensors: Sequence[Tensor | None]) -> None:
        """Add a block, and join it with its neighbour as long as both halves of their parent are here."""
        held = list(tensors)
        if self.exact == "sum":
            before = self._blocks.get(block)
            self._blocks[block] = held if before is None else _added(before, held)
            return
        while (parent := _parent(block, self._size)) is not None:
            start, level = parent
            left, right = (start, level - 1), (start + (1 << (level - 1)), level - 1)
            other = right if block == left else left
            if other[0] < self._size:
                if other not in self._blocks:
                    break
                mate = self._blocks.pop(other)
                held = _added(held, mate) if block == left else _added(mate, held)
            block = parent
        self._blocks[block] = held

    def total(self) -> list[Tensor]:
        """Return the sum of all blocks, added in the order of the tree."""
        parts = [part for _, part in sorted(self._blocks.items())]
        total = parts[0]
        for part in parts[1:]:
            total = _added(total, part)
        # Zeros from other ranks turn -0.0 to 0.0; one rank alone gets the same.
        return [
            torch.zeros_like(like, requires_grad=False) if each is None else each + 0.0
            for each, like in zip(total, self._parameters, strict=True)
        ]

    def state_dict(self) -> dict[str, list[Tensor]]:
        """Return copies of the blocks, by name."""
        return {
            f"{start}/{level}": [each.clone() for each in self.block((start, level))]
            for start, level in self._blocks
        }

    def load_state_dict(self, state: Mapping[str, Sequence[Tensor]]) -> None:
        """Continue with saved blocks."""
        self._blocks = {}
        for name, tensors in state.items():
            start, level = name.split("/")
            self._blocks[int(start), int(level)] = [
                each.to(like.device, like.dtype, copy=True)
                for each, like in zip(tensors, self._parameters, strict=True)
            ]


def _added(left: Sequence[Tensor | None], right: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [
        second if first is None else first if second is None else first + second
        for first, second in zip(left, right, strict=True)
    ]


def units_by_rank(held: Mapping[int, Sequence[tuple[int, int]]]) -> list[list[int]]:
    """Return the single units of each rank."""
    return [
        [unit for start, stop in ranges for unit in range(start, stop)]
        for _, ranges in sorted(held.items())
    ]
