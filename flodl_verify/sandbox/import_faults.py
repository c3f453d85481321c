"""The import of a package at which the import of a program ended."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from flodl_verify.sandbox.attempt import Failure, attempt

_LACKING = re.compile(r"ImportError: cannot import name '(\w+)' from '([\w.]+)'")
_PACKAGES = Path(__file__).resolve().parents[2]
_OWN = (_PACKAGES / "flodl", _PACKAGES / "flodl_verify")
_SITES = frozenset({"site-packages", "dist-packages"})
# Packages that everything here needs; a missing part of them is still a missing part.
_NEVER = frozenset({"torch", "flodl", "flodl_verify"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFault:
    """A module that cannot be imported, or one name that it lacks.

    `inside` is the package whose own import fails for want of the module, or because of it.
    """

    module: str
    name: str | None = None
    inside: str | None = None


def find_fault(failure: Failure, folders: Sequence[Path]) -> ImportFault | None:
    """Return the package that the program wanted when its import failed.

    The last line of the program's own files in the traceback is an import of something that is not
    among those files. For everything else, None.
    """
    place = _last_own_line(failure, folders)
    node = None if place is None else _import_at(*place)
    if node is None:
        return None
    if isinstance(node, ast.ImportFrom):
        wanted = [] if node.level or node.module is None else [node.module]
    else:
        wanted = [alias.name for alias in node.names]
    outside = [name for name in wanted if not _is_local(name, folders)]
    lacking = _LACKING.match(failure.text)
    if lacking is not None and lacking[2] in outside:
        return ImportFault(module=lacking[2], name=lacking[1])
    missing = failure.missing
    for module in outside:
        if missing is not None and (module == missing or module.startswith(f"{missing}.")):
            return ImportFault(module=missing)
    top = outside[0].partition(".")[0] if len(outside) == 1 else None
    # It is there, and its own import failed.
    if top is None or top in _NEVER:
        return None
    inner = _innermost_package(failure) if missing is None else missing
    if inner is not None and inner.partition(".")[0] not in {*_NEVER, top}:
        return ImportFault(module=inner, inside=top)
    return ImportFault(module=top)


def _innermost_package(failure: Failure) -> str | None:
    """Return the installed package whose own import raised, if it was one.

    A package that was imported (numpy, which lacks a removed name) works; its importer does not.
    """
    parts = Path(failure.frames[-1][0]).parts if failure.frames else ()
    places = [at for at, part in enumerate(parts[:-1]) if part in _SITES]
    found = parts[places[-1] + 1].removesuffix(".py") if places else None
    return None if found in sys.modules else found


def _last_own_line(failure: Failure, folders: Sequence[Path]) -> tuple[Path, int] | None:
    for file, line in reversed(failure.frames):
        path = Path(file)
        if any(path.is_relative_to(package) for package in _OWN):
            continue
        if any(path.is_relative_to(folder) for folder in folders) and not _is_installed(path):
            return path, line
    return None


def _is_installed(path: Path) -> bool:
    return not _SITES.isdisjoint(path.parts)


def _import_at(file: Path, line: int) -> ast.Import | ast.ImportFrom | None:
    tree = attempt(lambda: ast.parse(file.read_bytes()))
    if isinstance(tree, Failure):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = node.lineno if node.end_lineno is None else node.end_lineno
            if node.lineno <= line <= last:
                return node
    return None


def _is_local(name: str, folders: Sequence[Path]) -> bool:
    top = name.partition(".")[0]
    return any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in folders)
