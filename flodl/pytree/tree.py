"""Node types of flat trees, and the tree itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import torch


@final
@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor, or a numpy array of numbers: the live object."""

    value: Any


@final
@dataclass(frozen=True, slots=True)
class Plain:
    """A value without parts, as text."""

    text: str


@final
@dataclass(frozen=True, slots=True)
class Code:
    """A local function, as a digest of its body; another body may still compute the same.

    Its children are what it captures.
    """

    digest: str


@final
@dataclass(frozen=True, slots=True)
class Branch:
    """A value with parts, which are its children; `text` is what it holds besides them.

    Whether two references lead to one immutable value makes no difference to a program.
    """

    text: str = ""
    immutable: bool = False
    module: bool = False


@final
@dataclass(frozen=True, slots=True)
class SameAs:
    """A value that came before, by the index of its node.

    The index is -1 for a value of an earlier tree of the same walker, whose path is `path`.
    """

    index: int
    path: str = ""


@final
@dataclass(frozen=True, slots=True)
class Known:
    """A value that has a name already, and is not looked into here."""

    name: str


@final
@dataclass(frozen=True, slots=True)
class Unseen:
    """A value that cannot be looked into, and why."""

    reason: str


Content = Leaf | Plain | Code | Branch | SameAs | Known | Unseen


@final
class Node(NamedTuple):
    """One part of a value: its parent's index (-1 for the root), its label there, and its type."""

    parent: int
    key: str
    kind: str
    content: Content


@final
@dataclass(frozen=True, slots=True)
class Tree:
    """The parts of one value, each before its own parts; `root` begins every path."""

    nodes: tuple[Node, ...]
    root: str = ""

    def path(self, index: int) -> str:
        """Return the labels from the root to a node, between slashes."""
        return path_of(self.nodes, index, self.root)

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """Return every tensor with its path, each once, but none that modules hold."""
        found = []
        inside: set[int] = set()
        for index, node in enumerate(self.nodes):
            content = node.content
            if node.parent in inside or (isinstance(content, Branch) and content.module):
                inside.add(index)
            elif isinstance(content, Leaf) and isinstance(content.value, torch.Tensor):
                found.append((self.path(index), content.value))
        return found


class Labelled(Protocol):
    """A node of a flat tree."""

    @property
    def parent(self) -> int:
        """Index of the node above, -1 for the root."""

    @property
    def key(self) -> str:
        """Label below that node."""


def path_of(nodes: Sequence[Labelled], index: int, root: str) -> str:
    """Return the labels from the root to a node, between slashes."""
    keys: list[str] = []
    while index > 0:
        keys.append(nodes[index].key)
        index = nodes[index].parent
    return "/".join([root, *reversed(keys)])
