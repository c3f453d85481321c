"""Which nodes are metadata: sizes, dtypes and Python arithmetic on them, free of tensor work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.spec.graph import (
    Arg,
    Attr,
    Build,
    Items,
    Literally,
    Named,
    Pairs,
    Ref,
    Slice,
    Submodule,
)

if TYPE_CHECKING:
    from flodl.spec.graph import GraphSpec, NodeSpec

METADATA_ATTRIBUTES = frozenset(
    {"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "type", "index",
     "is_sparse", "is_quantized", "is_complex", "itemsize", "is_floating_point", "is_leaf"}
)  # fmt: skip
METADATA_METHODS = frozenset(
    {"size", "dim", "numel", "nelement", "ndimension", "is_floating_point", "is_complex",
     "is_contiguous", "stride", "element_size", "get_device", "__len__", "index"}
)  # fmt: skip
_IN_PLACE = frozenset({"setitem", "delitem"})


def metadata_nodes(spec: GraphSpec) -> frozenset[int]:
    """Return the nodes that compute sizes, dtypes, or Python numbers made from those.

    Dropping, moving or repeating such a node changes nothing that a user can see.
    """
    found: set[int] = set()
    for node in spec.nodes:
        if _is_metadata(node, found):
            found.add(node.index)
    return frozenset(found)


def _is_metadata(node: NodeSpec, known: set[int]) -> bool:
    match node.kind:
        case "attribute":
            return node.target in METADATA_ATTRIBUTES and not is_live_read(node)
        case "method":
            return node.target in METADATA_METHODS and not node.kwargs
        case "operator":
            pure = node.target not in _IN_PLACE and not node.target.startswith("i_")
            return pure and (node.plain or _all_plain(node.args, known))
        case "item" | "unpack":
            return _all_plain(node.args, known)
        case "function":
            pure = node.target.startswith(("math.", "builtins."))
            return pure and (node.plain or _all_plain(node.args, known))
        case _:
            return False


def _all_plain(args: tuple[Arg, ...], known: set[int]) -> bool:
    return all(_plain(arg, known) for arg in args)


def _plain(arg: Arg, known: set[int]) -> bool:
    match arg:
        case Ref(node):
            return node in known
        case Literally() | Named():
            return True
        case Attr() | Submodule() | Build() | Pairs():
            return False
        case Items(_, items):
            return _all_plain(items, known)
        case Slice(start, stop, step):
            return _all_plain((start, stop, step), known)


def entry_nodes(spec: GraphSpec, metadata: frozenset[int]) -> frozenset[int]:
    """Return the nodes whose value follows from inputs and attributes before anything has run."""
    found: set[int] = set()
    written: set[str] = set()
    for node in spec.nodes:
        if node.kind == "setattr" and node.args[0] == Submodule(""):
            written.add(node.target)
        if (
            (is_live_read(node) and node.target not in written)
            or node.kind == "input"
            or (
                node.index in metadata
                and all(
                    _known_at_entry(arg, found)
                    for arg in (*node.args, *dict(node.kwargs).values())
                )
            )
        ):
            found.add(node.index)
    return frozenset(found)


def is_live_read(node: NodeSpec) -> bool:
    """Say whether a node reads an attribute of the module itself at its place in the order."""
    return node.kind == "attribute" and node.args[:1] == (Submodule(""),)


def _known_at_entry(arg: Arg, found: set[int]) -> bool:
    match arg:
        case Ref(node):
            return node in found
        case Literally() | Named() | Attr():
            return True
        case Items(_, items):
            return all(_known_at_entry(item, found) for item in items)
        case Slice(start, stop, step):
            return all(_known_at_entry(item, found) for item in (start, stop, step))
        case Pairs() | Build() | Submodule():
            return False
