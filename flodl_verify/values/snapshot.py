"""Snapshots of values that a model returns, holds or was given, to be compared bit by bit.

A snapshot is the flat tree of a value (see `flodl.pytree`) with a copy in place of every tensor, so
that later in-place writes cannot change what was seen.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import nn

from flodl.module.flow_module import FlowModule
from flodl.pytree import (
    Branch,
    Code,
    Known,
    Leaf,
    Node,
    Plain,
    SameAs,
    Tree,
    Unseen,
    Walker,
)
from flodl_verify.sandbox.memory import tensor_checksum
from flodl_verify.values import raw

DIGESTED_BYTES = 1 << 20
MODULE_FIELDS = frozenset(vars(nn.Module()))
# Attributes that a flow keeps in its module, beside the author's.
FLOW_FIELDS = frozenset(vars(FlowModule())) - MODULE_FIELDS
_COMPRESSED = frozenset({torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})
# Numbers of numpy that torch knows; all others are compared as bytes.
_NUMBERS = {
    "|b1": torch.bool, "|u1": torch.uint8, "|i1": torch.int8, "<i2": torch.int16,
    "<i4": torch.int32, "<i8": torch.int64, "<f2": torch.float16, "<f4": torch.float32,
    "<f8": torch.float64, "<c8": torch.complex64, "<c16": torch.complex128,
}  # fmt: skip


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorSnapshot:
    """One tensor: its bits, and everything else that later code could notice.

    `data` lies in memory without gaps. `alias` names the input, parameter or earlier output whose
    memory it shares, or is empty.
    """

    data: torch.Tensor
    requires_grad: bool
    layout: str
    strides: tuple[int, ...]
    alias: str


Content = TensorSnapshot | Plain | Code | Branch | SameAs | Known | Unseen
Pieces = Sequence[tuple[str, TensorSnapshot]]


@runtime_checkable
class _ShowsTensors(Protocol):
    """A tensor subclass that names the attributes which hold its numbers."""

    def __tensor_flatten__(self) -> object:
        """Return the names of those attributes, and what else a copy needs."""


@final
class Part(NamedTuple):
    """A node of a snapshot: its parent's index, its label there, the name of its type, its content."""

    parent: int
    key: str
    kind: str
    content: Content


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """The parts of a value, each before its own parts."""

    parts: tuple[Part, ...]

    def children(self) -> list[list[int]]:
        """Return for every part the indices of its parts."""
        found: list[list[int]] = [[] for _ in self.parts]
        for index, part in enumerate(self.parts):
            if part.parent >= 0:
                found[part.parent].append(index)
        return found

    def resolved(self, index: int) -> int:
        """Return where a part is that may be a reference; -1 when in another snapshot."""
        content = self.parts[index].content
        return content.index if isinstance(content, SameAs) else index

    def tensors(self) -> Iterator[TensorSnapshot]:
        """Yield the tensors."""
        for part in self.parts:
            if isinstance(part.content, TensorSnapshot):
                yield part.content


@final
class Freezer:
    """Makes snapshots of several values of one run, with aliases named across all of them.

    Without `aliases`, shared memory and strides are not looked at: which of two equal gradients
    owns its memory is an accident of autograd.
    """

    def __init__(self, *, aliases: bool = True) -> None:
        self._aliases = aliases
        self._owners: dict[int, str] = {}
        self._walker = Walker(internal=FLOW_FIELDS)

    def know(self, named: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Register tensors by name, so that what shares memory with them is recognised."""
        for name, tensor in named:
            address = raw.storage_address(tensor)
            if address:
                self._owners.setdefault(address, name)

    def name(self, values: Iterable[tuple[str, object]]) -> None:
        """Register values that are compared elsewhere: a reference to them is compared by its name."""
        for name, value in values:
            self._walker.know(value, name)

    def freeze(self, value: object, path: str) -> Snapshot:
        """Return the snapshot of a value; `path` is how it is called in messages and aliases."""
        return self.freeze_tree(self.flatten(value, path))

    def flatten(self, value: object, path: str, *, draw: bool = False) -> Tree:
        """Return the live parts of a value; with `draw`, generators are run to their end."""
        return self._walker.flatten(value, root=path, draw=draw)

    def freeze_tree(self, tree: Tree) -> Snapshot:
        """Return the snapshot of the parts of a value."""
        parts: list[Part] = []
        places: list[int] = []
        for index, node in enumerate(tree.nodes):
            places.append(len(parts))
            self._freeze_node(tree, index, node, parts, places)
        return Snapshot(tuple(parts))

    def _freeze_node(
        self, tree: Tree, index: int, node: Node, parts: list[Part], places: list[int]
    ) -> None:
        parent = places[node.parent] if node.parent >= 0 else -1
        content: Content
        pieces: Pieces = ()
        if isinstance(node.content, SameAs):
            content = self._refer(node.content, tree, parts, places)
        elif isinstance(node.content, Leaf):
            content, pieces = self._freeze_leaf(node.content.value, tree.path(index))
        else:
            content = node.content
        parts.append(Part(parent, node.key, node.kind, content))
        own = len(parts) - 1
        parts.extend(Part(own, key, "torch.Tensor", piece) for key, piece in pieces)

    def _refer(
        self, to: SameAs, tree: Tree, parts: list[Part], places: list[int]
    ) -> SameAs | TensorSnapshot:
        """Return a reference; a tensor that comes again is one that shares all of its memory."""
        if to.index < 0:
            return to
        known = parts[places[to.index]].content
        if not isinstance(known, TensorSnapshot):
            return SameAs(places[to.index])
        owner = known.alias or (tree.path(to.index) if self._aliases else "")
        return dataclasses.replace(known, alias=owner)

    def _freeze_leaf(self, value: Any, path: str) -> tuple[Content, Pieces]:
        """Return the frozen form of a tensor or an array, and its pieces where it has several."""
        try:
            if not isinstance(value, torch.Tensor):
                return self._freeze_array(value, path), ()
            if _is_dense(value):
                return self._freeze_tensor(value, path), ()
            facts, pieces = _pieces(value)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as problem:
            return Unseen(f"its data cannot be read: {problem}"), ()
        frozen = [(key, self._freeze_tensor(piece, "")) for key, piece in pieces]
        return Branch(facts), frozen

    def _freeze_tensor(self, tensor: torch.Tensor, path: str) -> TensorSnapshot:
        layout = raw.layout(tensor)
        strided = self._aliases and layout == torch.strided and not raw.is_nested(tensor)
        return TensorSnapshot(
            data=raw.dense_copy(tensor),
            requires_grad=raw.requires_grad(tensor),
            layout=str(layout),
            strides=tuple(raw.stride(tensor)) if strided else (),
            alias=self._alias(raw.storage_address(tensor), path),
        )

    def _freeze_array(self, array: Any, path: str) -> TensorSnapshot:
        dtype = _NUMBERS.get(array.dtype.str)
        memory = bytearray(array.tobytes())
        whole = torch.frombuffer(memory, dtype=dtype or torch.uint8) if memory else torch.empty(0)
        return TensorSnapshot(
            data=whole.to(dtype or torch.uint8).reshape(array.shape if dtype else -1),
            requires_grad=False,
            layout=f"{array.dtype.str} {array.shape}",
            strides=tuple(array.strides) if self._aliases else (),
            alias=self._alias(_array_address(array), path),
        )

    def _alias(self, address: int, path: str) -> str:
        if not address or not self._aliases or not path:
            return ""
        owner = self._owners.setdefault(address, path)
        return "" if owner == path else owner


def joined(kind: str, snapshots: Iterable[tuple[str, Snapshot]]) -> Snapshot:
    """Return one snapshot with others below it."""
    parts = [Part(-1, "", kind, Branch())]
    for key, snapshot in snapshots:
        start = len(parts)
        for part in snapshot.parts:
            content = part.content
            if isinstance(content, SameAs) and content.index >= 0:
                content = SameAs(content.index + start)
            root = part.parent < 0
            parent = 0 if root else part.parent + start
            parts.append(Part(parent, key if root else part.key, part.kind, content))
    return Snapshot(tuple(parts))


def digested(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that only tells whether another one is equal: large tensors become digests."""
    return Snapshot(
        tuple(part._replace(content=_digested(part.content)) for part in snapshot.parts)
    )


def _digested(content: Content) -> Content:
    if not isinstance(content, TensorSnapshot) or content.data.nbytes < DIGESTED_BYTES:
        return content
    data = content.data
    if data.is_meta:
        return content
    if data.is_floating_point() and data.isnan().any():
        data = data.masked_fill(data.isnan(), math.nan)  # of whatever sign
    checksum = tensor_checksum(data.contiguous())
    return dataclasses.replace(
        content,
        data=torch.frombuffer(bytearray(checksum), dtype=torch.uint8),
        layout=f"{content.layout} {data.dtype} {tuple(data.shape)}",
    )


def is_all_nan(snapshot: Snapshot) -> bool:
    """Return True if a snapshot holds floating point tensors and not one number in them."""
    held = [item.data for item in snapshot.tensors()]
    found = [item for item in held if item.is_floating_point() and item.numel()]
    return bool(found) and all(bool(torch.isnan(item.double()).all()) for item in found)


def _array_address(array: Any) -> int:
    """Return where the memory of an array's owner begins: a tensor's, or its own."""
    while array.base is not None:
        if isinstance(array.base, torch.Tensor):
            return raw.storage_address(array.base)
        if type(array.base).__module__ != "numpy":
            break
        array = array.base
    return int(array.__array_interface__["data"][0])


def _is_dense(tensor: torch.Tensor) -> bool:
    plain = raw.layout(tensor) == torch.strided
    plain = plain and not raw.is_nested(tensor) and not raw.is_quantized(tensor)
    return plain and not _is_wrapper(tensor) and not _is_uninitialized(tensor)


def _is_uninitialized(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, nn.UninitializedParameter | nn.UninitializedBuffer)


def _is_wrapper(tensor: torch.Tensor) -> bool:
    """Return True if a tensor has its numbers in others, which are its attributes."""
    if raw.is_meta(tensor) or not raw.numel(tensor) or raw.layout(tensor) != torch.strided:
        return False
    return raw.storage_address(tensor) == 0


def _pieces(tensor: torch.Tensor) -> tuple[str, Sequence[tuple[str, torch.Tensor]]]:
    """Return the facts about a tensor of several pieces, and those pieces."""
    wants_gradient = raw.requires_grad(tensor)
    if _is_uninitialized(tensor):
        return f"not initialized, {wants_gradient}", ()
    facts = f"{raw.dtype(tensor)} {raw.layout(tensor)} requires_grad={wants_gradient}"
    with raw.without_gradients():
        if raw.is_nested(tensor):
            return facts, _numbered("part", raw.unbind(tensor))
        facts += f" {tuple(raw.shape(tensor))}"
        if raw.is_quantized(tensor):
            return _quantized_pieces(tensor, facts)
        if tensor.layout == torch.sparse_coo:
            coo = ("indices", tensor._indices()), ("values", tensor._values())
            return f"{facts} {tensor.is_coalesced()}", coo
        if tensor.layout in _COMPRESSED:
            by_row = tensor.layout in {torch.sparse_csr, torch.sparse_bsr}
            first = tensor.crow_indices() if by_row else tensor.ccol_indices()
            second = tensor.col_indices() if by_row else tensor.row_indices()
            return facts, (("first", first), ("second", second), ("values", tensor.values()))
        if tensor.layout != torch.strided:
            return facts, (("dense", raw.to_dense(tensor)),)
    if not isinstance(tensor, _ShowsTensors):
        raise TypeError("its numbers lie where its type does not show them")
    return facts, ()  # its tensors are attributes, which are parts of the same tree


def _quantized_pieces(
    tensor: torch.Tensor, facts: str
) -> tuple[str, Sequence[tuple[str, torch.Tensor]]]:
    facts += f" {tensor.qscheme()}"
    numbers = [("integers", tensor.int_repr())]
    if tensor.qscheme() in {torch.per_tensor_affine, torch.per_tensor_symmetric}:
        return f"{facts} {tensor.q_scale()!r} {tensor.q_zero_point()}", numbers
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    facts += f" {tensor.q_per_channel_axis()}"
    return facts, [*numbers, ("scales", scales), ("zero points", zeros)]


def _numbered(name: str, tensors: Iterable[torch.Tensor]) -> Sequence[tuple[str, torch.Tensor]]:
    return [(f"{name} {number}", item) for number, item in enumerate(tensors)]


def tensors_in(value: object, *, draw: bool = False) -> list[tuple[str, torch.Tensor]]:
    """Return every tensor of a nest with its path, each once, in order.

    Modules are not looked into. With `draw`, generators are run to their end.
    """
    tree = Walker(into_modules=False).flatten(value, root="", draw=draw)
    return [(path or "value", tensor) for path, tensor in tree.tensors()]
