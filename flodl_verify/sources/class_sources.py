"""The syntax trees of classes and their modules; a file is read and parsed once."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path


def class_node(kind: type) -> ast.ClassDef | None:
    """Return the definition of a class, or None where there is no file that shows it."""
    return _classes(_file(kind)).get(kind.__qualname__)


def module_node(kind: type) -> ast.Module:
    """Return the text of the file of a class; nothing where there is none."""
    return _parsed(_file(kind)) or ast.Module(body=[], type_ignores=[])


def constructor_node(kind: type) -> ast.FunctionDef | None:
    """Return the constructor that a class has itself."""
    node = class_node(kind)
    body = node.body if node is not None else []
    found = (item for item in body if isinstance(item, ast.FunctionDef))
    return next((item for item in found if item.name == "__init__"), None)


def _file(kind: type) -> Path:
    known = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if known is None:
        try:
            known = inspect.getsourcefile(kind)
        except TypeError:  # a class of no file
            known = None
    return Path(known or "")


@functools.lru_cache(maxsize=64)
def _parsed(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


@functools.lru_cache(maxsize=64)
def _classes(file: Path) -> Mapping[str, ast.ClassDef]:
    """Return the classes of a file by qualified name; of several of one name, the last counts."""
    found: dict[str, ast.ClassDef] = {}
    tree = _parsed(file)
    pending: list[tuple[str, ast.AST]] = [("", tree)] if tree is not None else []
    while pending:
        prefix, node = pending.pop(0)
        for item in ast.iter_child_nodes(node):
            if isinstance(item, ast.ClassDef):
                found[prefix + item.name] = item
                pending.append((f"{prefix}{item.name}.", item))
            elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                pending.append((f"{prefix}{item.name}.<locals>.", item))
            else:
                pending.append((prefix, item))
    return found
