"""Map from imports to their files, without running anything.

The files that are ported are known; others are looked for on disk, from the folder of the importing file up
to the top of its project. A file alone so sees what it sees in a port of its whole folder. An installed
package sees itself, and no other one that is installed beside it. Bases of classes are looked for in
installed packages too.

    fdl port pkg/model.py      # from .parts import *; import lightning as L
    find(pkg/model.py, ".parts") -> pkg/parts.py, which is read and not ported
    find_installed("lightning.LightningModule") -> site-packages/lightning/__init__.py, ("LightningModule",)
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, final

from fdl_cli.porter.lower.names import Names

# Marks for the top of a project: the search ends there.
_MARKS: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", "fdl.yml", "requirements.txt")
_INSTALL_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})
_INSTALLED: Final = frozenset({"torch", "torchvision", "numpy", "flodl", *sys.stdlib_module_names})


@final
class ModuleMap:
    """The Python files of a project, by the names under which they import each other."""

    def __init__(self, files: Iterable[Path], installed: Sequence[Path] = ()) -> None:
        self._files = frozenset(files)
        self._installed = tuple(installed)
        self._disk = _Disk()
        self._packages = frozenset(file.parent for file in self._files if _is_package(file))
        folders = {file.parent for file in self._files}
        # A package is imported from the folder above it.
        self._folders = folders | {folder.parent for folder in folders}
        self._tops = frozenset(_top(file) for file in self._files) | {
            folder.name for folder in self._folders
        }

    def find(self, importer: Path, dotted: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the file that a full name leads to, and the parts of the name left over.

        `dotted` is what an import binds: `pkg.base.Base`, or `.base.Base` for a relative one.
        """
        if dotted.startswith("."):
            rest = dotted.lstrip(".")
            folder = importer.parent
            for _ in range(len(dotted) - len(rest) - 1):
                folder = folder.parent
            parts = tuple(rest.split(".")) if rest else ()
            init = folder / "__init__.py"
            known = init in self._files or self._disk.is_file(init)
            own = (init, parts) if known else None
            return self._walk(folder, parts) or self._disk.walk(folder, parts) or own
        parts = tuple(dotted.split("."))
        if parts[0] in self._tops:
            for folder in self._search_folders(importer):
                found = self._walk(folder, parts)
                if found is not None:
                    return found
        if parts[0] in _INSTALLED:
            return None
        around = self._disk.folders(importer.parent)
        near = [each for each in around if _is_own(each, importer, parts[0])]
        walks = (self._disk.walk(each, parts) for each in near)
        return next((found for found in walks if found is not None), None)

    def find_installed(self, dotted: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the file of an installed package that a full name leads to, and what is left of the name.

        Torch is no such package: its classes are known by name.
        """
        parts = tuple(dotted.split("."))
        if parts[0] in _INSTALLED:
            return None
        walks = (self._disk.walk(each, parts) for each in self._installed)
        return next((found for found in walks if found is not None), None)

    def imported(self, importer: Path, names: Names) -> set[Path]:
        """Return the files from which a file imports something, by the names that it binds."""
        found = (self.find(importer, dotted) for dotted in (*names.aliases.values(), *names.stars))
        return {item[0] for item in found if item is not None}

    def _walk(self, folder: Path, parts: tuple[str, ...]) -> tuple[Path, tuple[str, ...]] | None:
        """Follow the parts from a folder down to the file which they name last."""
        found: tuple[Path, tuple[str, ...]] | None = None
        for number, part in enumerate(parts):
            file, folder = folder / f"{part}.py", folder / part
            if folder / "__init__.py" in self._files:
                found = folder / "__init__.py", parts[number + 1 :]
            elif file in self._files:
                return file, parts[number + 1 :]
        return found

    def _search_folders(self, importer: Path) -> Iterator[Path]:
        """Yield the folders that an absolute import is looked up in, likeliest first."""
        chain = [importer.parent, *importer.parent.parents]
        inside = [folder for folder in chain if folder in self._packages]
        outside = [folder for folder in chain if folder not in self._packages]
        yield from (folder for folder in outside if folder in self._folders)
        # A file of a package that is run as a script finds its neighbours by their bare names.
        yield from inside


@final
class _Disk:
    """The files on disk around the given ones, each place looked at once."""

    def __init__(self) -> None:
        self._files: dict[Path, bool] = {}
        self._chains: dict[Path, tuple[Path, ...]] = {}

    def walk(self, folder: Path, parts: tuple[str, ...]) -> tuple[Path, tuple[str, ...]] | None:
        """Follow the parts of a name from a folder down to the file which they name last."""
        found: tuple[Path, tuple[str, ...]] | None = None
        for number, part in enumerate(parts):
            file, folder = folder / f"{part}.py", folder / part
            if self.is_file(folder / "__init__.py"):
                found = folder / "__init__.py", parts[number + 1 :]
            elif self.is_file(file):
                return file, parts[number + 1 :]
            elif not folder.is_dir():
                return found
        return found

    def is_file(self, path: Path) -> bool:
        """Return True if there is such a file."""
        if path not in self._files:
            self._files[path] = path.is_file()
        return self._files[path]

    def folders(self, folder: Path) -> tuple[Path, ...]:
        """Return the folders from which a file in a folder may import, likeliest first."""
        if folder not in self._chains:
            chain = [folder, *folder.parents]
            inside = [each for each in chain if self.is_file(each / "__init__.py")]
            outside = [each for each in chain if each not in inside]
            top = next((n for n, each in enumerate(outside) if _is_top(each)), 0)
            self._chains[folder] = (*outside[: top + 1], *inside)
        return self._chains[folder]


def _is_own(folder: Path, importer: Path, package: str) -> bool:
    """Return True unless a folder of installed packages would bring another one than the importer's own."""
    return folder.name not in _INSTALL_FOLDERS or (folder / package) in importer.parents


def _is_top(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in _MARKS)


def _is_package(file: Path) -> bool:
    return file.name == "__init__.py"


def _top(file: Path) -> str:
    return file.parent.name if _is_package(file) else file.stem


def imports_first(
    files: Iterable[Path], imported: Callable[[Path], Iterable[Path]]
) -> tuple[Path, ...]:
    """Return files in an order in which each file follows those that it imports.

    The order of the files themselves decides where imports do not, also in a circle of imports.
    """
    wanted = tuple(files)
    order: dict[Path, None] = {}
    seen: set[Path] = set()
    # A file is met twice: the second time, its imports have their places.
    pending = [(file, False) for file in reversed(wanted)]
    while pending:
        file, placed = pending.pop()
        if placed:
            order[file] = None
        elif file not in seen:
            seen.add(file)
            pending.append((file, True))
            pending += [(item, False) for item in sorted(imported(file), reverse=True)]
    return tuple(file for file in order if file in set(wanted))
