"""Names of a module, resolved to the imports, functions and classes of the file."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

STAR_MODULES = ("torch", "torch.nn", "torch.nn.functional")
_TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@final
@dataclass(frozen=True)
class Names:
    """Module-level names: imports under their full dotted names, functions, classes.

    `typed_stars` are those under `if TYPE_CHECKING:`: a package that loads its parts on demand has hundreds.
    """

    aliases: dict[str, str] = field(default_factory=dict)
    stars: frozenset[str] = frozenset()
    functions: dict[str, FunctionNode] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    typed_stars: frozenset[str] = frozenset()

    def dotted(self, node: ast.expr) -> str:
        """Return the full name of `nn.Linear`-like expressions, or nothing when it is not known."""
        if isinstance(node, ast.Name):
            return self.dotted_name(node.id)
        if isinstance(node, ast.Attribute):
            inner = self.dotted(node.value)
            # Some files say `torch.torch.nn`: the package is an attribute of itself.
            return f"{inner}.{node.attr}".replace("torch.torch.", "torch.") if inner else ""
        return ""

    def dotted_name(self, name: str) -> str:
        """Return the full name of a name that the module imports."""
        found = self.aliases.get(name)
        if found is not None:
            return found
        if self.stars and not self.is_own(name):
            return self._from_star(name)
        return ""

    def is_own(self, name: str) -> bool:
        """Return True if the module itself defines the name."""
        return name in self.functions or name in self.classes or name in self.assigned

    def _from_star(self, name: str) -> str:
        # `from torch.nn import *` brings layers; only names that look like them are trusted.
        if "torch.nn" in self.stars and (name[:1].isupper() or name in {"functional", "init"}):
            return f"torch.nn.{name}"
        if "torch" in self.stars and name in {"nn", "Tensor", "cat", "stack", "optim"}:
            return f"torch.{name}"
        return ""


def collect(tree: ast.Module, brought: Mapping[str, str] = MappingProxyType({})) -> Names:
    """Collect the definitions at module level, conditional parts included.

    `brought` is what stars and relative imports bring from other files, under their full names.
    """
    aliases: dict[str, str] = {}
    stars: set[str] = set()
    functions: dict[str, FunctionNode] = {}
    classes: dict[str, ast.ClassDef] = {}
    assigned: set[str] = set()
    unread: set[str] = set()
    for_types = set(_only_for_types(tree.body))
    for node in module_level(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            add_import(node, aliases, unread if node in for_types else stars)
        elif isinstance(node, FunctionNode):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            assigned.update(_assigned_names(node))
            _follow_alias(node, aliases)
    own = {*functions, *classes, *assigned}
    for name, dotted in brought.items():
        if name not in own and aliases.get(name, ".").startswith("."):
            aliases[name] = dotted
    own_names = frozenset(assigned)
    return Names(aliases, frozenset(stars), functions, classes, own_names, frozenset(unread))


def module_level(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Yield the statements of a module, inside `if`, `try` and `with` too."""
    for node in body:
        yield node
        for inner in _inner_blocks(node):
            yield from module_level(inner)


def _only_for_types(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Yield the statements under `if TYPE_CHECKING:`, which never run.

    A package that loads its parts on demand has a star for each of them there: they may be hundreds of files.
    """
    for node in module_level(body):
        if isinstance(node, ast.If) and ast.unparse(node.test) in _TYPE_CHECKING:
            yield from module_level(node.body)


def _inner_blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    if isinstance(node, ast.If):
        return [node.body, node.orelse]
    if isinstance(node, ast.Try):
        handlers = [handler.body for handler in node.handlers]
        return [node.body, *handlers, node.orelse, node.finalbody]
    if isinstance(node, ast.With):
        return [node.body]
    return []


def add_import(
    node: ast.Import | ast.ImportFrom, aliases: dict[str, str], stars: set[str]
) -> None:
    """Enter the names that an import statement binds; relative modules keep their dots."""
    if isinstance(node, ast.Import):
        for item in node.names:
            if item.asname:
                aliases[item.asname] = item.name
            else:
                root = item.name.partition(".")[0]
                aliases[root] = root
        return
    module = "." * node.level + (node.module or "")
    for item in node.names:
        if item.name == "*":
            stars.add(module)
        else:
            joint = "" if module.endswith(".") else "."
            aliases[item.asname or item.name] = f"{module}{joint}{item.name}"


def _assigned_names(node: ast.Assign | ast.AnnAssign) -> Iterable[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Name):
                yield inner.id


def _follow_alias(node: ast.Assign | ast.AnnAssign, aliases: dict[str, str]) -> None:
    # `Module = nn.Module` and `LinearNoBias = nn.Linear` are names for what is imported.
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Attribute | ast.Name):
        return
    found = Names(aliases).dotted(value)
    if found:
        aliases[target.id] = found
