"""Liveness: nodes that become statements, nodes inlined in their reader, and the last use of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from flodl.graph.shape_nodes import metadata_nodes
from flodl.ir.graph import Ref, node_refs, refs

if TYPE_CHECKING:
    from flodl.ir.graph import GraphSpec, NodeSpec

AT_END = 1 << 60


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """The shape of the generated function.

    `statement[i]` is the node whose statement contains node i (itself for most nodes, -1 for dropped
    ones).  `last_use[i]` is the statement that reads the value of i for the last time, `AT_END` if it
    is returned.  `unpacked[i]` are the item nodes bound by the unpacking node i.
    """

    statement: tuple[int, ...]
    last_use: tuple[int, ...]
    unpacked: dict[int, tuple[int, ...]]
    metadata: frozenset[int]


def analyse_liveness(spec: GraphSpec, kept: frozenset[int]) -> Liveness:
    """Decide the statements of a graph; `kept` are nodes that must keep their variable."""
    metadata = metadata_nodes(spec)
    # Another way on may need everything that was there before it.
    fork = spec.last_fork
    kept |= frozenset(range(fork + 1))
    readers = _readers(spec)
    dead = _dead_metadata(spec, metadata, readers, kept)
    unpacked = _unpacked(spec)
    bound = {item for items in unpacked.values() for item in items}
    statement = list(range(len(spec.nodes)))
    for item, owner in ((item, owner) for owner, items in unpacked.items() for item in items):
        statement[item] = owner
    for index in dead:
        statement[index] = -1
    for node in reversed(spec.nodes):
        if node.index in metadata and node.index not in kept | bound | dead:
            _inline(node, [r for r in readers[node.index] if r not in dead], statement)
    last_use = _last_uses(spec, statement, dead)
    last_use[: fork + 1] = [max(use, fork) for use in last_use[: fork + 1]]
    return Liveness(
        statement=tuple(statement), last_use=tuple(last_use), unpacked=unpacked, metadata=metadata
    )


def _readers(spec: GraphSpec) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in spec.nodes]
    for node in spec.nodes:
        for ref in node_refs(node):
            readers[ref].append(node.index)
    for ref in refs(spec.output):
        readers[ref].append(AT_END)
    return readers


def _dead_metadata(
    spec: GraphSpec, metadata: frozenset[int], readers: list[list[int]], kept: frozenset[int]
) -> frozenset[int]:
    dead: set[int] = set()
    for node in reversed(spec.nodes):
        unread = all(reader in dead for reader in readers[node.index])
        if node.index in metadata and node.index not in kept and unread:
            dead.add(node.index)
    return frozenset(dead)


def _unpacked(spec: GraphSpec) -> dict[int, tuple[int, ...]]:
    return {
        node.index: tuple(range(node.index + 1, node.index + 1 + int(node.target)))
        for node in spec.nodes
        if node.kind == "unpack"
    }


def _inline(node: NodeSpec, readers: list[int], statement: list[int]) -> None:
    """Write a metadata node inside its only reader if nothing else happens in between."""
    if len(readers) != 1 or readers[0] == AT_END or node.kind == "unpack":
        return
    root = statement[readers[0]]
    between = range(node.index + 1, root)
    if root >= 0 and all(statement[index] in (root, -1) for index in between):
        statement[node.index] = root


def _last_uses(spec: GraphSpec, statement: list[int], dead: frozenset[int]) -> list[int]:
    last = [-1] * len(spec.nodes)
    for node in spec.nodes:
        if node.index in dead:
            continue
        for ref in node_refs(node):
            last[ref] = max(last[ref], statement[node.index])
    for guard in spec.guards:
        if not guard.at_entry and isinstance(guard.value, Ref):
            last[guard.value.node] = max(last[guard.value.node], guard.value.node)
    for ref in refs(spec.output):
        last[ref] = AT_END
    return last
