"""A working copy of a project in which ports lie beside each other while they are proved."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The folders from which one file and its port are imported, while they are compared.

    The folders are where their neighbours are found; the port's are looked at first on its side.
    """

    original: Path
    ported: Path
    search_path: tuple[Path, ...]
    ported_search_path: tuple[Path, ...]


@final
class Workspace:
    """The copy: files that are not ported are links to the originals."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._root = _absolute(root)
        # Inside a package the whole package is copied, or its relative imports lead nowhere.
        self._base = package_root(self._root)
        self._folder = folder / "tree"
        self._opened: set[Path] = set()
        self._placed: dict[Path, bytes] = {}

    def place(self, source: Path, data: bytes) -> None:
        """Put the port of one file into the copy."""
        if self._placed.get(source) == data:
            return
        target = self._twin(source)
        self._open(target.parent)
        self._placed[source] = data
        target.unlink(missing_ok=True)
        target.write_bytes(data)

    def put_back(self) -> tuple[Path, ...]:
        """Rewrite ports that another change has altered; return the files that they are of."""
        changed = [
            source for source, data in self._placed.items() if self._holds_other(source, data)
        ]
        for source in changed:
            self.place(source, self._placed.pop(source))
        return tuple(changed)

    def _holds_other(self, source: Path, data: bytes) -> bool:
        try:
            return self._twin(source).read_bytes() != data
        except OSError:
            return True

    def placement(self, source: Path) -> Placement:
        """Return where a file of the project and its port are."""
        real = _absolute(source)
        own = [] if (real.parent / "__init__.py").is_file() else [real.parent]
        search = tuple(dict.fromkeys([*own, self._root, self._base]))
        return Placement(
            original=real,
            ported=self._twin(source),
            search_path=search,
            ported_search_path=tuple(self._twin(folder) for folder in search),
        )

    def _twin(self, path: Path) -> Path:
        return self._folder / _absolute(path).relative_to(self._base)

    def _open(self, folder: Path) -> None:
        """Make a folder of the copy real, with a link to everything that the original has there."""
        if folder in self._opened:
            return
        if folder != self._folder:
            self._open(folder.parent)
        self._opened.add(folder)
        if folder.is_symlink():
            folder.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        original = self._base / folder.relative_to(self._folder)
        for item in original.iterdir():
            link = folder / item.name
            if not link.exists() and not link.is_symlink():
                link.symlink_to(item, target_is_directory=item.is_dir())


def package_root(folder: Path) -> Path:
    """Return the folder from which a folder's package is imported; itself when it is in none."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _absolute(path: Path) -> Path:
    # Links stay links: a file is imported from where it is seen.
    return Path(os.path.abspath(path))  # noqa: PTH100
