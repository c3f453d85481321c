"""The walk from a value to its flat tree."""

from __future__ import annotations

import hashlib
import itertools
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from flodl.pytree.readers import (
    AS_ITS_BASE,
    ATOMS,
    MRO,
    NAMESPACE,
    NUMPY_READERS,
    READERS,
    WHOLE,
    CannotLookError,
    Parts,
    Reader,
    Unordered,
    drawn,
    entries,
    is_drawable,
    kind_of,
    numbered,
    pickled,
    script_items,
)
from flodl.pytree.tree import Branch, Code, Content, Known, Leaf, Node, Plain, SameAs, Tree, Unseen

MAX_NODES = 1 << 20
_HEAP_TYPE = 1 << 9
_POINTER = 8
# By identity: a metaclass may have its own ideas of equality. A layout keeps its type alive.
_LAYOUTS: dict[int, _Layout] = {}
_MAX_LAYOUTS = 2048
_BASE = type.__dict__["__base__"].__get__
_FLAGS = type.__dict__["__flags__"].__get__
_BASIC_SIZE = type.__dict__["__basicsize__"].__get__
_IS_NESTED = torch._C.TensorBase.__dict__["is_nested"].__get__
_MODULE_FIELDS = frozenset(vars(nn.Module()))


def flatten(
    value: object, *, root: str = "", draw: bool = False, max_nodes: int = MAX_NODES
) -> Tree:
    """Return the parts of a value.

    With `draw`, generators and other built-in iterators are run to their end, as a caller would do.

    Example:
        >>> tree = flatten({"a": [1, 2.0]})
        >>> [(tree.path(i), node.kind) for i, node in enumerate(tree.nodes)][1:]
        [('/a', 'list'), ('/a/0', 'int'), ('/a/1', 'float')]
    """
    return Walker(max_nodes=max_nodes).flatten(value, root=root, draw=draw)


@final
class Walker:
    """Flattens several values of one run, and finds parts that they share.

    `internal` names attributes of modules that are no part of their value. Without `into_modules`,
    modules are leaves.
    """

    def __init__(
        self,
        *,
        max_nodes: int = MAX_NODES,
        internal: frozenset[str] = frozenset(),
        into_modules: bool = True,
    ) -> None:
        self._max_nodes = max_nodes
        self._into_modules = into_modules
        self._internal = internal | _MODULE_FIELDS
        self._names: dict[int, str] = {}
        # By identity, which is only one's own as long as the value lives.
        self._places: dict[int, tuple[Tree, int]] = {}
        self._alive: list[object] = []

    def know(self, value: object, name: str) -> None:
        """Let a value be referred to by name from now on, without being looked into."""
        self._names.setdefault(id(value), name)
        self._alive.append(value)

    def flatten(self, value: object, *, root: str = "", draw: bool = False) -> Tree:
        """Return the parts of a value."""
        nodes: list[Node] = []
        seen: dict[int, int] = {}
        pending: list[tuple[int, str, object]] = [(-1, "", value)]
        while pending:
            parent, key, item = pending.pop()
            show = ATOMS.get(type(item))
            if show is not None:
                nodes.append(Node(parent, key, type(item).__name__, Plain(show(item))))
                continue
            index = len(nodes)
            room = self._max_nodes - index - len(pending) - 1
            content, children = self._parts(item, seen, room, draw=draw)
            nodes.append(Node(parent, key, kind_of(type(item)), content))
            if isinstance(content, Branch | Code | Leaf | Unseen):
                seen[id(item)] = index
                self._alive.append(item)
            pending += [(index, label, child) for label, child in reversed(children)]
        tree = Tree(tuple(nodes), root)
        for identity, index in seen.items():
            self._places.setdefault(identity, (tree, index))
        return tree

    def _parts(
        self, value: object, seen: dict[int, int], room: int, *, draw: bool
    ) -> tuple[Content, list[tuple[str, object]]]:
        """Return the content of a value's node, and its children."""
        kind, identity = type(value), id(value)
        if identity in self._names:
            return Known(self._names[identity]), []
        if identity in seen:
            return SameAs(seen[identity]), []
        try:
            content, children = self._taken_apart(value, kind, draw=draw)
            place = self._places.get(identity)
            if place is not None and isinstance(content, Branch) and not content.immutable:
                return SameAs(-1, place[0].path(place[1])), []
            if isinstance(children, Unordered):
                children = _in_order(children)
            listed = list(itertools.islice(children, max(room, 0) + 1))
        except CannotLookError as problem:
            return Unseen(str(problem)), []
        except (
            Exception
        ) as problem:  # of user code that C calls back, as a proxy of a mapping does
            return Unseen(f"reading it raises {type(problem).__name__}: {problem}"), []
        if len(listed) > room:
            return Unseen(f"with it there are more than {self._max_nodes:,} values"), []
        return content, listed

    def _taken_apart(self, value: Any, kind: type, *, draw: bool) -> Parts:
        if kind is list or kind is tuple:
            return Branch(immutable=kind is tuple), numbered(value)
        if kind is dict:
            return entries(value.items)
        layout = _layout_of(kind)
        if torch.Tensor in layout.bases:
            # Those of torch cache their sizes in attributes.
            return Leaf(value), () if _IS_NESTED(value) else layout.state_of(value)
        if nn.Module in layout.bases:
            return Branch(module=True), self._module_items(value) if self._into_modules else ()
        read = layout.reader
        if read is None and draw and is_drawable(kind):
            return drawn(value)
        if read is not None:
            return _with_state(read(value), layout.state_of(value))
        if layout.hides:
            return pickled(value, kind)
        return Branch(), layout.state_of(value)

    def _module_items(self, module: nn.Module) -> Iterator[tuple[str, object]]:
        """Yield what a module computes with: not its hooks, nor `internal` attributes."""
        own = vars(module)
        yield "training", own.get("training")
        for table in ("_parameters", "_buffers", "_modules"):
            found = own.get(table)
            if isinstance(found, Mapping):
                yield from list(found.items())
            else:  # TorchScript has other tables
                yield from script_items(module, table)
        for name, item in list(own.items()):
            if name not in self._internal:
                yield name, item


@final
@dataclass(frozen=True, slots=True)
class _Layout:
    """The storage of the values of a type.

    `reader` reads what the built-in type below holds. `hides` tells whether a class stores something
    that is neither an attribute nor a slot, and that nothing reads.
    """

    bases: tuple[type, ...]
    slots: tuple[tuple[str, Any], ...]
    attributes: Any
    reader: Reader | None
    hides: bool

    @classmethod
    def of(cls, kind: type) -> _Layout:
        """Read the layout of a type, past its metaclass."""
        bases: tuple[type, ...] = MRO(kind)
        slots: dict[str, Any] = {}
        attributes = None
        for base in bases:
            made_in_python = _is_made_in_python(base)
            for name, member in NAMESPACE(base).items():
                if name == "__dict__" and type(member) is types.GetSetDescriptorType:
                    attributes = attributes or member
                elif type(member) is types.MemberDescriptorType and made_in_python:
                    slots[name if name not in slots else f"{base.__qualname__}.{name}"] = member
        reader, whole = _reader_of(bases)
        hides = any(not _is_made_in_python(base) for base in _chain(kind))
        if whole:
            return cls(bases, (), None, reader, hides)
        return cls(bases, tuple(slots.items()), attributes, reader, hides)

    def state_of(self, value: object) -> Iterator[tuple[str, object]]:
        """Yield the filled slots and the attributes of a value."""
        for name, member in self.slots:
            try:
                item = member.__get__(value)
            except AttributeError:
                continue
            yield name, item
        own: Any = {} if self.attributes is None else self.attributes.__get__(value)
        for name, item in list(own.items()):
            yield str(name), item


def _layout_of(kind: type) -> _Layout:
    known = _LAYOUTS.get(id(kind))
    if known is None:
        if len(_LAYOUTS) >= _MAX_LAYOUTS:
            _LAYOUTS.clear()
        known = _LAYOUTS[id(kind)] = _Layout.of(kind)
    return known


def _reader_of(bases: tuple[type, ...]) -> tuple[Reader | None, bool]:
    """Return the reader of the built-in part of a value, and whether that is all of it.

    A class of C between a type and the one that is read would go unread.
    """
    for base in bases:
        if base.__module__ == "numpy" and "numpy" in sys.modules:
            reader = NUMPY_READERS.get(base.__qualname__)
            if reader is not None:
                return reader, False
    for base in bases:
        if base in WHOLE:
            return WHOLE[base], True
        if base in READERS:
            return READERS[base], False
        if _own_size(base) and not _is_made_in_python(base) and base not in AS_ITS_BASE:
            return None, False
    return None, False


def _chain(kind: type) -> Iterator[type]:
    """Yield the classes that make up the memory of a value, `object` excepted."""
    while kind is not object:
        yield kind
        kind = _BASE(kind)


def _own_size(kind: type) -> int:
    base = _BASE(kind)
    return 0 if base is None else int(_BASIC_SIZE(kind) - _BASIC_SIZE(base))


def _is_made_in_python(kind: type) -> bool:
    """Return True if a class adds nothing to its base but attributes and slots."""
    if not _FLAGS(kind) & _HEAP_TYPE:
        return False
    namespace = NAMESPACE(kind)
    members = sum(type(item) is types.MemberDescriptorType for item in namespace.values())
    shown = members + ("__dict__" in namespace) + ("__weakref__" in namespace)
    return _own_size(kind) <= _POINTER * shown


def _with_state(parts: Parts, state: Iterator[tuple[str, object]]) -> Parts:
    """Add what a subclass keeps in attributes to what the built-in type keeps."""
    content, children = parts
    first = next(state, None)
    if first is None:
        return parts
    if isinstance(content, Plain | Branch):
        content = Branch(content.text)  # it can be changed
    listed = _in_order(children) if isinstance(children, Unordered) else children
    return content, itertools.chain(listed, [first], state)


def _in_order(items: Unordered) -> Iterator[tuple[str, object]]:
    """Return the items of a set, whose order is no part of its value, in an order of their contents."""
    return numbered(sorted(items, key=_content_key))


def _content_key(value: object) -> str:
    show = ATOMS.get(type(value))
    if show is not None:
        return f"{type(value).__name__} {show(value)}"
    state = hashlib.blake2b(digest_size=16)
    for node in flatten(value).nodes:
        content: object = node.content
        if isinstance(content, Leaf):
            leaf = content.value
            content = leaf.dtype, tuple(leaf.shape), _numbers_of(leaf)
        state.update(f"{node.parent} {node.key} {node.kind} {content}\n".encode())
    return f"~{kind_of(type(value))} {state.hexdigest()}"


def _numbers_of(leaf: Any) -> object:
    """Return the numbers of a tensor or an array, as far as they tell it from others."""
    if not isinstance(leaf, torch.Tensor):
        return leaf.tolist()
    if leaf.is_nested:
        return [_numbers_of(part) for part in leaf.unbind()]
    if leaf.is_meta or leaf.is_quantized:
        return None
    return (leaf if leaf.layout == torch.strided else leaf.to_dense()).tolist()
