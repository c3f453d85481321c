"""Syntax trees of a package's modules, and the path of a name through their imports."""

import ast
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, final

from fdl_cli.errors import NotFoundError

Definition = ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.AsyncFunctionDef


@final
class Module(NamedTuple):
    """One module of the package: its dotted name, its file and its tree."""

    name: str
    file: str
    tree: ast.Module


@final
class Found(NamedTuple):
    """The place of a definition; `node` is nothing for names of other packages and for modules."""

    module: Module
    name: str
    node: Definition | None
    target: str


@final
class SourceTree:
    """The modules of one package, by dotted name."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules

    def exports(self) -> Iterator[tuple[str, Found]]:
        """Yield every public name, that is, each name a package re-exports as `from a import X as X`."""
        for module in self.modules.values():
            if not module.file.endswith("__init__.py"):
                continue
            for node in module.tree.body:
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    for alias in node.names:
                        if alias.asname == alias.name:
                            where = f"{module.name}.{alias.name}"
                            found = self.find(module, alias.name)
                            if found is None:
                                raise _lost(module, alias.name)
                            yield where, found

    def find(self, module: Module, name: str) -> Found | None:
        """Return where a name that is used in a module is defined; nothing for builtins."""
        seen: set[tuple[str, str]] = set()
        while (module.name, name) not in seen:
            seen.add((module.name, name))
            node = definition(module.tree, name)
            if node is not None:
                return Found(module, name, node, "")
            origin = _imported_from(module.tree, name)
            if origin is None:
                break
            source, original = origin
            target = f"{source}.{original}" if original else source
            if source not in self.modules or target in self.modules:
                return Found(module, name, None, target)
            module, name = self.modules[source], original
        return None


def read_package(place: Path) -> SourceTree:
    """Read the package `flodl` from a folder that holds it, or from a wheel.

    Raises:
        NotFoundError: there is no such package.
    """
    texts = dict(_wheel_texts(place) if place.suffix == ".whl" else _folder_texts(place))
    if "flodl/__init__.py" not in texts:
        raise NotFoundError(
            error_id="api-source-missing",
            message=f"there is no source of flodl in `{place}`",
            hint="name a checkout, a wheel of flodl, or a file made by `fdl api-ref --json`",
            file=str(place),
        )
    modules = {}
    for file, text in sorted(texts.items()):
        dotted = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        modules[dotted] = Module(dotted, file, ast.parse(text, file))
    return SourceTree(modules)


def definition(tree: ast.Module, name: str) -> Definition | None:
    """Return the last statement of a module that defines a name (overloads come first)."""
    found: Definition | None = None
    for node in _top_level(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined = node.name == name
        elif isinstance(node, ast.AnnAssign):
            defined = isinstance(node.target, ast.Name) and node.target.id == name
        else:
            defined = any(
                isinstance(target, ast.Name) and target.id == name for target in node.targets
            )
        if defined:
            found = node
    return found


def _lost(module: Module, name: str) -> NotFoundError:
    return NotFoundError(
        error_id="api-name-lost",
        message=f"`{module.name}` exports `{name}`, which is not defined where it is imported from",
        hint="define it, or remove it from the public names",
        file=module.file,
    )


def _top_level(body: list[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        if isinstance(
            node,
            ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign,
        ):
            yield node


def _imported_from(tree: ast.Module, name: str) -> tuple[str, str] | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return alias.name, ""
    return None


def _folder_texts(place: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((place / "flodl").rglob("*.py")):
        yield path.relative_to(place).as_posix(), path.read_text(encoding="utf-8")


def _wheel_texts(place: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(place) as wheel:
        for name in wheel.namelist():
            if name.startswith("flodl/") and name.endswith(".py"):
                yield name, wheel.read(name).decode("utf-8")
