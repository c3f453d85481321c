"""Merge of two manifests: mappings merge, everything else replaces, null removes.

Pure. The place of every value travels with it, so the merged manifest knows which file set what.
Merging the same overlay twice equals merging it once.

Before: {lr: 0.1, opts: {a: 1}}  and overlay  {opts: {b: 2}, lr: null}
After:  {opts: {a: 1, b: 2}}
"""

from collections.abc import Iterator

from fdl_cli.manifest.model import Value
from fdl_cli.manifest.reading.document import Leaf, Node, Scalar, Table


def merge(under: Table, over: Table) -> Table:
    """Return `over` laid on `under`; nulls stay, to remove what lies below them."""
    entries = dict(under.entries)
    for name, node in over.entries.items():
        below = entries.get(name)
        if isinstance(below, Table) and isinstance(node, Table):
            entries[name] = merge(below, node)
        else:
            entries[name] = node
    return Table(entries, over.place if over.entries else under.place)


def without_nulls(table: Table) -> Table:
    """Return the table without removed entries, at any depth."""
    entries: dict[str, Node] = {}
    for name, node in table.entries.items():
        if isinstance(node, Table):
            entries[name] = without_nulls(node)
        elif node.value is not None:
            entries[name] = node
    return Table(entries, table.place)


def leaves(table: Table, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Yield every value with its path, in the order of the merged file."""
    for name, node in table.entries.items():
        if isinstance(node, Table):
            yield from leaves(node, (*path, name))
        else:
            yield (*path, name), node


def plain(node: Node) -> Value:
    """Return a node without places: text as written, true, false or null, lists and mappings."""
    if isinstance(node, Table):
        return {name: plain(inner) for name, inner in node.entries.items()}
    if isinstance(node.value, tuple):
        return [_plain_scalar(v, t) for v, t in zip(node.value, node.text, strict=True)]
    return _plain_scalar(node.value, str(node.text))


def _plain_scalar(value: Scalar, text: str) -> Value:
    return value if value is None or isinstance(value, bool) else text


def lookup(table: Table, path: tuple[str, ...]) -> Node | None:
    """Return the node at a path, or nothing."""
    node: Node | None = table
    for name in path:
        if not isinstance(node, Table):
            return None
        node = node.entries.get(name)
    return node
