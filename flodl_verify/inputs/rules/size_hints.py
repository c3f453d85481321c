"""Sizes by name: the arguments of a constructor, and the attributes of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from flodl_verify.values.recipes import Arguments

Hints = Mapping[str, int]

_LENGTHS = (
    "seq_len", "seq_length", "sequence_length", "context_length", "context_len", "input_len",
    "input_length", "in_len", "window_size", "window", "lookback", "history_len", "n_steps",
    "block_size", "max_seq_len", "max_len", "max_length", "num_timesteps",
)  # fmt: skip
_CHANNELS = (
    "enc_in", "c_in", "in_channels", "in_features", "input_dim", "in_dim", "input_size", "d_in",
    "input_features", "num_features", "n_features", "n_vars", "num_nodes", "feature_dim", "dim",
    "d_model", "hidden_size", "embed_dim",
)  # fmt: skip
_MAX_SIZE = 4096


def hints_of(model: nn.Module, arguments: Arguments | None = None) -> dict[str, int]:
    """Return whole numbers by name, from constructor arguments and from the model's attributes."""
    found: dict[str, int] = {}
    holders: list[object] = [vars(model)]
    if arguments is not None:
        args, kwargs = arguments
        holders += [kwargs, *args, *kwargs.values()]
    holders += [item for name, item in vars(model).items() if not name.startswith("_")]
    for holder in holders:
        for name, value in _named(holder):
            if type(value) is int and not name.startswith("_") and 0 < value <= _MAX_SIZE:
                found.setdefault(name, value)
    return found


def sequence_shape(hints: Hints) -> tuple[int, int] | None:
    """Return the length and the channels of a sequence, if both have one of their usual names."""
    length = next((hints[name] for name in _LENGTHS if name in hints), None)
    channels = next((hints[name] for name in _CHANNELS if name in hints), None)
    return None if length is None or channels is None else (length, channels)


def _named(holder: object) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a mapping, or a settings object, by name."""
    if isinstance(holder, nn.Module | type):
        return
    if dataclasses.is_dataclass(holder):
        for field in dataclasses.fields(holder):
            yield field.name, getattr(holder, field.name, None)
    elif isinstance(holder, Mapping):
        yield from ((name, value) for name, value in holder.items() if isinstance(name, str))
    elif type(holder).__name__ in {"Namespace", "SimpleNamespace"}:
        yield from vars(holder).items()
