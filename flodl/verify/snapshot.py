"""Freezes what a model returns, holds or was given, so that runs can be compared bit by bit.

A snapshot keeps copies of the tensors, so that later in-place writes cannot change what was seen.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import final

import torch
from torch import nn

from flodl.verify.memory import tensor_checksum

MAX_ITEMS = 5000
DIGESTED_BYTES = 1 << 20
MAX_DEPTH = 12


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorSnapshot:
    """One tensor: its bits, and everything else that later code could notice.

    `alias` names the input, parameter or earlier output whose memory it shares, or is empty.
    """

    data: torch.Tensor
    kind: str
    requires_grad: bool
    layout: str
    strides: tuple[int, ...]
    alias: str


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """A container or object, by the name of its type and its items in order."""

    kind: str
    items: tuple[tuple[str, Snapshot], ...]


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlainSnapshot:
    """A value without tensors, by type and text."""

    kind: str
    text: str


Snapshot = TensorSnapshot | NodeSnapshot | PlainSnapshot

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(...))
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


@final
class Freezer:
    """Makes snapshots of several values of one run, with aliases named across all of them.

    Without `aliases`, shared memory and strides are not looked at: which of two equal gradients
    owns its memory is an accident of autograd.
    """

    def __init__(self, *, aliases: bool = True) -> None:
        self._aliases = aliases
        self._owners: dict[int, str] = {}
        self._inside: set[int] = set()

    def know(self, named: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Register tensors by name, so that what shares memory with them is recognised."""
        for name, tensor in named:
            address = storage_address(tensor)
            if address:
                self._owners.setdefault(address, name)

    def freeze(self, value: object, path: str) -> Snapshot:
        """Return the snapshot of a value; `path` is how it is called in messages and aliases."""
        if isinstance(value, torch.Tensor):
            return self._freeze_tensor(value, path)
        plain = _plain_text(value)
        if plain is not None:
            return PlainSnapshot(kind=type(value).__name__, text=plain)
        if id(value) in self._inside or path.count("/") > MAX_DEPTH:
            return PlainSnapshot(kind="cycle", text=type(value).__qualname__)
        self._inside.add(id(value))
        try:
            return self._freeze_container(value, path)
        finally:
            self._inside.discard(id(value))

    def _freeze_container(self, value: object, path: str) -> Snapshot:
        kind = type(value).__qualname__
        items: Iterable[tuple[object, object]]
        if isinstance(value, Mapping):
            items = value.items()
        elif isinstance(value, list | tuple):
            items = enumerate(value)
        elif isinstance(value, set | frozenset):
            items = enumerate(sorted(value, key=repr))
        else:
            items = fields_of(value)
        frozen = []
        for number, (key, item) in enumerate(items):
            if number == MAX_ITEMS:
                break
            frozen.append((str(key), self.freeze(item, f"{path}/{key}")))
        return NodeSnapshot(kind=kind, items=tuple(frozen))

    def _freeze_tensor(self, tensor: torch.Tensor, path: str) -> TensorSnapshot:
        address = storage_address(tensor) if self._aliases else 0
        alias = self._owners.setdefault(address, path) if address else ""
        strided = self._aliases and tensor.layout == torch.strided and not tensor.is_nested
        return TensorSnapshot(
            data=dense_copy(tensor),
            kind=type(tensor).__name__,
            requires_grad=tensor.requires_grad,
            layout=str(tensor.layout),
            strides=tuple(tensor.stride()) if strided else (),
            alias="" if alias == path else alias,
        )


def _plain_text(value: object) -> str | None:
    """Return the text that stands for a value without parts, or None for one with parts."""
    if isinstance(value, _ATOMS):
        return repr(value)
    if isinstance(value, torch.dtype | torch.device | torch.Size | torch.layout):
        return str(value)
    if isinstance(value, nn.Module):
        return type(value).__qualname__
    if isinstance(value, _CALLABLES):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return None


def digested(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that only tells whether another one is equal: large tensors become digests."""
    if isinstance(snapshot, NodeSnapshot):
        items = tuple((key, digested(item)) for key, item in snapshot.items)
        return dataclasses.replace(snapshot, items=items)
    if isinstance(snapshot, PlainSnapshot) or snapshot.data.nbytes < DIGESTED_BYTES:
        return snapshot
    data = snapshot.data
    if data.is_floating_point() and data.isnan().any():
        data = data.masked_fill(data.isnan(), math.nan)  # of whatever sign
    checksum = tensor_checksum(data.contiguous())
    text = f"{snapshot.kind} {data.dtype} {tuple(data.shape)}"
    return dataclasses.replace(
        snapshot, data=torch.frombuffer(bytearray(checksum), dtype=torch.uint8), kind=text
    )


def is_all_nan(snapshot: Snapshot) -> bool:
    """Tell whether a snapshot holds floating point tensors and not one number in them."""
    found = [item for item in _tensor_data(snapshot) if item.is_floating_point() and item.numel()]
    return bool(found) and all(bool(torch.isnan(item.double()).all()) for item in found)


def _tensor_data(snapshot: Snapshot) -> Iterator[torch.Tensor]:
    if isinstance(snapshot, TensorSnapshot):
        yield snapshot.data
    elif isinstance(snapshot, NodeSnapshot):
        for _, item in snapshot.items:
            yield from _tensor_data(item)


def fields_of(value: object) -> Iterator[tuple[str, object]]:
    """Yield the named fields of an object that is no container."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name)
        return
    try:
        yield from vars(value).items()
    except TypeError:
        yield "text", type(value).__qualname__


def storage_address(tensor: torch.Tensor) -> int:
    """Return where a tensor's memory begins, or 0 when it has none to share."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type == "meta":
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return 0


def dense_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a detached copy that no later write can reach."""
    with torch.no_grad():
        copy = tensor.detach()
        if copy.is_nested:
            copy = torch.cat([part.reshape(-1) for part in copy.unbind()])
        if copy.is_quantized:
            return copy.int_repr().clone()
        if copy.layout != torch.strided:
            copy = copy.to_dense()
        return copy.resolve_conj().resolve_neg().clone()


def tensors_in(value: object) -> list[tuple[str, torch.Tensor]]:
    """Return every tensor of a nest with its path, each once, in order."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    _collect(value, "", found, set())
    return list(found.values())


def _collect(
    value: object, path: str, found: dict[int, tuple[str, torch.Tensor]], seen: set[int]
) -> None:
    if isinstance(value, torch.Tensor):
        found.setdefault(id(value), (path or "value", value))
        return
    if isinstance(value, (*_ATOMS, *_CALLABLES, nn.Module)) or id(value) in seen:
        return
    if path.count("/") > MAX_DEPTH:
        return
    seen.add(id(value))
    items: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        items = enumerate(value)
    else:
        items = fields_of(value)
    for key, item in items:
        _collect(item, f"{path}/{key}", found, seen)
