"""Permutations as pure functions of (n, key, position), the same on every machine and in every mode.

A small set is ranked by a hash of its indices. A large one goes through a Feistel network on a grid of `a *
b >= n` cells; the few results beyond `n` go through it again ("cycle walking"). So any position can be
computed without those before it.
"""

from __future__ import annotations

from typing import Final

import torch

# Up to here a permutation is computed as a whole, which takes a few milliseconds.
RANKED_UP_TO: Final = 1 << 16
_ROUNDS: Final = 8
_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB


def mix(*parts: int) -> int:
    """Return 64 well mixed bits that depend on all parts and their order (SplitMix64)."""
    state = 0
    for part in parts:
        state = (state ^ (part & _MASK)) + _GOLDEN & _MASK
        state = (state ^ state >> 30) * _FIRST & _MASK
        state = (state ^ state >> 27) * _SECOND & _MASK
        state ^= state >> 31
    return state


def permuted(n: int, key: int, start: int, stop: int) -> torch.Tensor:
    """Return entries `start` to `stop - 1` of the permutation of `range(n)` that the key names.

    Args:
        n: how many numbers are permuted.
        key: any integer; each key names one permutation.
        start: first position.
        stop: position after the last, at most `n`.
    """
    if n <= RANKED_UP_TO:
        return torch.argsort(_hashed(torch.arange(n), key), stable=True)[start:stop]
    rows = int(n**0.5) + 1
    columns = -(-n // rows)
    values = _round_trip(torch.arange(start, stop), rows, columns, key)
    beyond = values >= n
    while bool(beyond.any()):
        values[beyond] = _round_trip(values[beyond], rows, columns, key)
        beyond = values >= n
    return values


def _round_trip(values: torch.Tensor, rows: int, columns: int, key: int) -> torch.Tensor:
    """Apply a bijection of the cells of a grid: each round shifts one coordinate by a hash of the other."""
    row, column = values // columns, values % columns
    for turn in range(0, _ROUNDS, 2):
        row = (row + _hashed(column, mix(key, turn)) % rows) % rows
        column = (column + _hashed(row, mix(key, turn + 1)) % columns) % columns
    return row * columns + column


def _hashed(values: torch.Tensor, key: int) -> torch.Tensor:
    """Return 63 hashed bits per value; int64 arithmetic wraps, as that of SplitMix64 should."""
    state = values * _signed(_GOLDEN) + _signed(key)
    state ^= (state >> 30) & (1 << 34) - 1
    state *= _signed(_FIRST)
    state ^= (state >> 27) & (1 << 37) - 1
    state *= _signed(_SECOND)
    state ^= (state >> 31) & (1 << 33) - 1
    return state & (1 << 63) - 1


def _signed(number: int) -> int:
    bits = number & _MASK
    return bits - (1 << 64) if bits >> 63 else bits
