"""Frozen dataclasses that describe a flow graph: nodes, arguments, tags, guards, call sites."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

NodeKind = Literal[
    "input",
    "module",
    "function",
    "method",
    "attribute",
    "operator",
    "unpack",
    "item",
    "merge",
    "loop",
    "setattr",
    "enter",
    "exit",
]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A line that the user wrote; `line` counts from 1, 0 means unknown."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Site(file="<unknown>", line=0)


@final
@dataclass(frozen=True, slots=True)
class Ref:
    """The value of node `node` of the same graph."""

    node: int


@final
@dataclass(frozen=True, slots=True)
class Attr:
    """A parameter, buffer or plain attribute of the owning module, by dotted path."""

    path: str


@final
@dataclass(frozen=True, slots=True)
class Literally:
    """A Python literal: `None`, a bool, number, string, bytes or `...`."""

    value: object


@final
@dataclass(frozen=True, slots=True)
class Named:
    """An object of the graph's constant table (a dtype, a function, any Python object)."""

    key: str


@final
@dataclass(frozen=True, slots=True)
class Items:
    """A list or tuple display, or a `torch.Size`, which some of torch's functions tell from a tuple."""

    kind: Literal["list", "tuple", "size"]
    items: tuple[Arg, ...]


@final
@dataclass(frozen=True, slots=True)
class Pairs:
    """A dict display."""

    keys: tuple[Arg, ...]
    values: tuple[Arg, ...]


@final
@dataclass(frozen=True, slots=True)
class Slice:
    """A `start:stop:step` inside an index."""

    start: Arg
    stop: Arg
    step: Arg


@final
@dataclass(frozen=True, slots=True)
class Build:
    """A call of a class in the constant table with keyword fields (dataclass, namedtuple, ...)."""

    key: str
    fields: tuple[tuple[str, Arg], ...]


@final
@dataclass(frozen=True, slots=True)
class Submodule:
    """A module below the owning one as a value, by dotted path; the empty path is the owner."""

    path: str


Arg: TypeAlias = Ref | Attr | Submodule | Literally | Named | Items | Pairs | Slice | Build


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Position of a node among the branches of a split: `k` of `n`, counted from 1."""

    k: int
    n: int
    site: Site

    def __str__(self) -> str:
        return f"branch {self.k} of {self.n} of the split at {self.site}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One step of a graph.

    `args` may refer only to nodes with a smaller index: the tuple of nodes is in execution order,
    which is the order of the user's source.  `name` is unique within the graph; `variable` is the name
    that the user's source gave the value, if it gave one.  `plain`: the value is a Python number,
    text or size, so operators on it can be repeated at no harm.
    """

    index: int
    kind: NodeKind
    target: str
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    name: str = ""
    site: Site = NOWHERE
    branch: Branch | None = None
    variable: str = ""
    plain: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for the value of one node."""

    name: str
    node: int
    internal: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TagGroup:
    """A name for several tags, in order."""

    name: str
    tags: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One parameter of the graph's forward.

    `check` is a Python expression over the parameter name that says whether a plan recorded for
    such a value may serve another one; empty means that any value may.
    """

    name: str
    check: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A guard: a value that Python read while the flow was recorded, and the value it got.

    `at_entry` says that the guarded value can be computed from the inputs alone, before anything runs.
    `branches`: another value leads to other nodes from there on; the pass continues with those.
    `presence`: it tests only whether the value is not `None`; so says `expected`.
    """

    value: Arg
    expected: Arg
    site: Site
    at_entry: bool
    branches: bool = False
    presence: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSpec:
    """A whole graph: its inputs, its nodes in execution order, and what it returns.

    `training` is the mode that the description holds for, `None` if for both.  `checks` are Python
    expressions over `self` that must hold before a call.
    """

    label: str = ""
    inputs: tuple[InputSpec, ...] = ()
    nodes: tuple[NodeSpec, ...] = ()
    output: Arg = field(default_factory=lambda: Literally(None))
    tags: tuple[Tag, ...] = ()
    groups: tuple[TagGroup, ...] = ()
    guards: tuple[Guard, ...] = ()
    training: bool | None = None
    checks: tuple[str, ...] = ()

    def node(self, index: int) -> NodeSpec:
        """Return the node with that index."""
        return self.nodes[index]

    @property
    def last_fork(self) -> int:
        """Return the last node that is there where the way forks for the last time, -1 for no fork."""
        forks = (
            self.together(each.value.node)[-1]
            for each in self.guards
            if each.branches and isinstance(each.value, Ref)
        )
        return max(forks, default=-1)

    def together(self, index: int) -> tuple[int, ...]:
        """Return the nodes that one statement makes with a node: all parts of `a, b, c = x`."""
        node = self.nodes[index]
        owner = node.args[0] if node.kind == "item" else None
        if isinstance(owner, Ref) and self.nodes[owner.node].kind == "unpack":
            parts = range(owner.node + 1, owner.node + 1 + int(self.nodes[owner.node].target))
            if index in parts:
                return tuple(parts)
        return (index,)

    def tags_of(self, index: int) -> tuple[str, ...]:
        """Return the names of the tags that sit on a node, in the order they were given."""
        return tuple(tag.name for tag in self.tags if tag.node == index)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One wiring mistake, its place in the source, and its correction."""

    message: str
    site: Site
    hint: str = ""

    def __str__(self) -> str:
        tail = f" ({self.hint})" if self.hint else ""
        return f"{self.site}: {self.message}{tail}"


def refs(arg: Arg) -> tuple[int, ...]:
    """Return the node indices that an argument mentions, left to right, with repeats."""
    match arg:
        case Ref(node):
            return (node,)
        case Items(_, items):
            return tuple(ref for item in items for ref in refs(item))
        case Pairs(keys, values):
            return tuple(ref for item in (*keys, *values) for ref in refs(item))
        case Slice(start, stop, step):
            return (*refs(start), *refs(stop), *refs(step))
        case Build(_, fields):
            return tuple(ref for _, item in fields for ref in refs(item))
        case _:
            return ()


def node_refs(node: NodeSpec) -> tuple[int, ...]:
    """Return the node indices that a node reads, in argument order, with repeats."""
    found = [ref for arg in node.args for ref in refs(arg)]
    found += [ref for _, arg in node.kwargs for ref in refs(arg)]
    return tuple(found)
