"""Index of public names, built from the source of the runtime without running it."""

import ast
from collections.abc import Iterator, Mapping
from typing import final

from fdl_cli.apiref.categories import category_of, category_order
from fdl_cli.apiref.docstrings import parse_docstring
from fdl_cli.apiref.model import ApiIndex, Entry, Kind
from fdl_cli.apiref.signatures import (
    class_signature,
    function_signature,
    is_property,
    is_setter,
    is_static,
    value_signature,
)
from fdl_cli.apiref.source_tree import Found, Module, SourceTree

Function = ast.FunctionDef | ast.AsyncFunctionDef


def build_index(tree: SourceTree, version: str, since: Mapping[str, str]) -> ApiIndex:
    """Return all public names with their members, grouped by purpose.

    `since` says in which version a name appeared; names that it lacks are of this version.
    """
    entries: list[Entry] = []
    for name, found in sorted(_shortest(tree), key=_order):
        entries += _Reader(tree, since, version).entries(name, found)
    return ApiIndex(version=version, entries=tuple(entries))


def _order(item: tuple[str, Found]) -> tuple[int, str, str]:
    name, found = item
    category = category_of(found.target or found.module.name)
    return category_order(category), category, name.lower()


def _shortest(tree: SourceTree) -> Iterator[tuple[str, Found]]:
    """Yield each public thing once, under its shortest name."""
    best: dict[tuple[str, str], tuple[str, Found]] = {}
    for name, found in tree.exports():
        key = (found.module.name if found.node is not None else found.target, found.name)
        if key not in best or len(name) < len(best[key][0]):
            best[key] = (name, found)
    yield from best.values()


@final
class _Reader:
    """Reads one public name; holds the parts that every entry of it shares."""

    __slots__ = ("since", "tree", "version")

    def __init__(self, tree: SourceTree, since: Mapping[str, str], version: str) -> None:
        self.tree = tree
        self.since = since
        self.version = version

    def entries(self, name: str, found: Found) -> list[Entry]:
        node = found.node
        if isinstance(node, ast.ClassDef):
            entry = self._entry(name, "class", found.module, node)
            return [entry, *self._members(name, found.module, node)]
        if isinstance(node, Function):
            return [self._entry(name, "function", found.module, node)]
        if node is not None:
            return [self._entry(name, "value", found.module, node)]
        return [self._foreign(name, found)]

    def _foreign(self, name: str, found: Found) -> Entry:
        inside = found.target in self.tree.modules
        module = self.tree.modules[found.target] if inside else found.module
        doc = parse_docstring(
            ast.get_docstring(module.tree)
            if inside
            else f"`{found.target}` itself, under a name of this package."
        )
        return Entry(
            name=name,
            kind="module" if inside else "alias",
            category=category_of(found.target),
            owner="",
            signature=f"import {found.target}" if inside else f"{found.name} = {found.target}",
            doc=doc,
            file=module.file,
            line=1,
            since=self.since.get(name, self.version),
        )

    def _entry(
        self,
        name: str,
        kind: Kind,
        module: Module,
        node: ast.ClassDef | Function | ast.Assign | ast.AnnAssign,
    ) -> Entry:
        short = name.rpartition(".")[2]
        if isinstance(node, ast.ClassDef):
            signature, text = class_signature(short, node), ast.get_docstring(node)
        elif isinstance(node, Function):
            signature = function_signature(short, node, bound=False)
            text = ast.get_docstring(node)
        else:
            signature, text = value_signature(short, node), _text_after(module.tree, node)
        return Entry(
            name=name,
            kind=kind,
            category=category_of(module.name),
            owner="",
            signature=signature,
            doc=parse_docstring(text),
            file=module.file,
            line=node.lineno,
            since=self.since.get(name, self.version),
        )

    def _members(self, owner: str, module: Module, node: ast.ClassDef) -> list[Entry]:
        seen: set[str] = set()
        found: list[Entry] = []
        for base_module, base in self._lineage(module, node):
            inherited = "" if base is node else base.name
            for item in base.body:
                if not isinstance(item, Function) or item.name.startswith("_"):
                    continue
                if item.name in seen or is_setter(item):
                    continue
                seen.add(item.name)
                found.append(self._member(owner, base_module, item, inherited))
        return found

    def _member(self, owner: str, module: Module, item: Function, inherited: str) -> Entry:
        attribute = is_property(item)
        short = f"{owner.rpartition('.')[2]}.{item.name}"
        if attribute:
            returns = f": {ast.unparse(item.returns)}" if item.returns is not None else ""
            signature = f"{short}{returns}"
        else:
            signature = function_signature(short, item, bound=not is_static(item))
        name = f"{owner}.{item.name}"
        return Entry(
            name=name,
            kind="property" if attribute else "method",
            category=category_of(module.name),
            owner=owner,
            signature=signature,
            doc=parse_docstring(ast.get_docstring(item)),
            file=module.file,
            line=item.lineno,
            since=self.since.get(name, self.version),
            inherited_from=inherited,
        )

    def _lineage(
        self, module: Module, node: ast.ClassDef
    ) -> Iterator[tuple[Module, ast.ClassDef]]:
        """Yield the class and its bases, as far as they are defined in the package."""
        yield module, node
        for base in node.bases:
            if not isinstance(base, ast.Name):
                continue
            found = self.tree.find(module, base.id)
            if found is not None and isinstance(found.node, ast.ClassDef):
                yield from self._lineage(found.module, found.node)


def _text_after(tree: ast.Module, node: ast.stmt) -> str | None:
    """Return the string that directly follows a value, which is how values are documented."""
    index = tree.body.index(node) + 1
    if index < len(tree.body):
        after = tree.body[index]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            value = after.value.value
            return value if isinstance(value, str) else None
    return None
