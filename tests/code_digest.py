"""A digest of what Python code means: comments, docstrings and formatting do not change it."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Fields that depend on the version of Python, or on how a text is written alone.
IGNORED = {"type_params", "type_comment", "kind", "ctx"}
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def meaning(value: Any) -> Any:
    """Return nested lists that are equal for equal code, under every version of Python.

    `ast.dump` is no choice: since Python 3.13 it leaves out empty lists.
    """
    match value:
        case ast.AST():
            fields = {
                name: each
                for name, each in ast.iter_fields(value)
                if name not in IGNORED and each is not None and each != []
            }
            if isinstance(value, WITH_DOCSTRING) and ast.get_docstring(value) is not None:
                fields["body"] = value.body[1:]
            return [type(value).__name__, {name: meaning(each) for name, each in fields.items()}]
        case list():
            return [meaning(each) for each in value]
        case _:
            return repr(value)


def digest(folder: Path, paths: Iterable[str], test: str) -> str:
    """Return the digest of files, of folders, and of one test with all that it uses.

    Args:
        folder: the folder that the other paths begin in.
        paths: Python files, and folders with them.
        test: `path::function`. Its module counts as far as the function reaches.

    Raises:
        FileNotFoundError: a path does not exist, or a folder holds no Python.
    """
    found: dict[str, Any] = {}
    for path in paths:
        files = [*_files(folder / path)]
        if not files:
            raise FileNotFoundError(f"{path}: no Python files")
        for file in files:
            found[file.relative_to(folder).as_posix()] = meaning(_tree(file))
    file, _, name = test.partition("::")
    found |= {
        f"{path}::{part}": meaning(node) for (path, part), node in _reach(folder, file, name)
    }
    text = repr(sorted(found.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def _files(path: Path) -> Iterator[Path]:
    yield from (path,) if path.is_file() else path.rglob("*.py")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _reach(folder: Path, file: str, name: str) -> Iterator[tuple[tuple[str, str], ast.AST | str]]:
    """Yield the statements that a function needs, in its module and in those of the tests."""
    modules: dict[str, dict[str, ast.stmt]] = {}
    waiting, seen = [(file, name)], set()
    while waiting:
        place = waiting.pop()
        path, part = place
        if place in seen:
            continue
        seen.add(place)
        if path not in modules:
            modules[path] = dict(_definitions(_tree(folder / path)))
        node = modules[path].get(part)
        if node is None:
            continue  # of Python, of a fixture of all tests, or a local name
        if isinstance(node, ast.ImportFrom):
            (name,) = (each.name for each in node.names if part in (each.asname, each.name))
            yield place, f"{node.module}.{name}"
            if node.module is not None and node.module.startswith("tests."):
                waiting.append((f"{node.module.replace('.', '/')}.py", name))
        else:
            yield place, node
            waiting += [(path, each) for each in _names(node)]


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Import() | ast.ImportFrom():
                for each in node.names:
                    yield each.asname or each.name.partition(".")[0], node
            case _:
                for each in ast.walk(node):
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                        yield each.id, node


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Name():
                yield each.id
            case ast.arg():
                yield each.arg  # a fixture
