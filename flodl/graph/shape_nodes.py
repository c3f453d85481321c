"""Metadata nodes: sizes, dtypes and Python arithmetic on them, free of tensor work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.ir.graph import (
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
    node_refs,
)

if TYPE_CHECKING:
    from flodl.ir.graph import GraphSpec, NodeSpec

METADATA_ATTRIBUTES = frozenset(
    {"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "type", "index",
     "is_sparse", "is_quantized", "is_complex", "itemsize", "is_floating_point", "is_leaf"}
)  # fmt: skip
METADATA_METHODS = frozenset(
    {"size", "dim", "numel", "nelement", "ndimension", "is_floating_point", "is_complex",
     "is_contiguous", "stride", "element_size", "get_device", "__len__", "index"}
)  # fmt: skip
_OF_NUMBERS = frozenset({"bool", "int", "float", "round", "divmod"})
_IN_PLACE = frozenset({"setitem", "delitem"})


def metadata_nodes(spec: GraphSpec) -> frozenset[int]:
    """Return the nodes that compute sizes, dtypes, or Python numbers made from those.

    Dropping, moving or repeating such a node changes nothing that a user can see.
    """
    found: set[int] = set()
    for node in spec.nodes:
        if _is_metadata(node, found) or _is_number_of_number(spec, node):
            found.add(node.index)
    return frozenset(found)


def _is_number_of_number(spec: GraphSpec, node: NodeSpec) -> bool:
    """Return True if a node is `int(n)`, `round(n)` or the like of what is a number already."""
    if node.kind != "function" or node.target not in _OF_NUMBERS:
        return False
    return all(spec.nodes[ref].plain for ref in node_refs(node))


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


# Their result has a size that depends on the values of what they are given.
_DATA_SIZED = frozenset({"nonzero", "masked_select", "argwhere", "unique", "unique_consecutive",
                         "repeat_interleave", "bincount", "where", "item", "tolist"})  # fmt: skip
_TORCH = ("torch.", "F.", "math.", "operator.")
# Sizes follow from the sizes of the inputs.  A dtype does not: `.half()` and autocast change it inside;
# nor does a length: a module may give a list, as long as it has layers.
_SIZES = frozenset({"shape", "ndim", "size", "dim", "numel", "nelement", "ndimension"})


def shaped_nodes(
    spec: GraphSpec, metadata: frozenset[int], entry: frozenset[int]
) -> frozenset[int]:
    """Return the nodes whose value follows from the shapes of the inputs, as far as can be told."""
    shaped: set[int] = set()
    # A plan is tied to the shapes of tensors, not to what an object holds that is an argument.
    checks = " and ".join(each.check for each in spec.inputs)
    data_sized = {
        node.index
        for node in spec.nodes
        if node.kind == "input"
        and not node.plain
        and f"isinstance({node.target}, torch.Tensor)" not in checks
    }
    for node in spec.nodes:
        if any(ref in data_sized for ref in node_refs(node)) or _has_size_of_data(node):
            data_sized.add(node.index)
        if node.index in entry:
            shaped.add(node.index)
        elif node.index in metadata and node.index not in data_sized:
            is_size = node.kind in ("attribute", "method") and node.target in _SIZES
            if is_size or all(ref in shaped for ref in node_refs(node)):
                shaped.add(node.index)
    return frozenset(shaped)


def _has_size_of_data(node: NodeSpec) -> bool:
    match node.kind:
        case "function":
            known = node.target.startswith(_TORCH)
            return not known or node.target.rpartition(".")[2] in _DATA_SIZED
        case "method":
            return node.target in _DATA_SIZED
        case "item":
            return any(isinstance(arg, Ref) for arg in _index_parts(node.args[1:]))
        case _:
            return False


def _index_parts(args: tuple[Arg, ...]) -> list[Arg]:
    found: list[Arg] = []
    for arg in args:
        found += _index_parts(arg.items) if isinstance(arg, Items) else [arg]
    return found


def is_live_read(node: NodeSpec) -> bool:
    """Return True if a node reads an attribute of the module itself at its place in the order."""
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
