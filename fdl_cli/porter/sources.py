"""The files to port: search, text, and the place of each port."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import UsageError
from fdl_cli.porter.ir.findings import FileError
from fdl_cli.porter.notebook import Notebook
from fdl_cli.porter.parse.reader import UnreadableError

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages"})
_SUFFIXES = (".py", ".ipynb")
_SUFFIX = "_flodl"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One file to port, where its port goes, and the folder that changes as a whole."""

    source: Path
    target: Path
    root: Path


def find_jobs(paths: tuple[Path, ...], output: Path | None, *, in_place: bool) -> tuple[Job, ...]:
    """Return the files to port, each once.

    Raises:
        UsageError: a folder has nothing that could be ported.
    """
    single = len(paths) == 1 and paths[0].is_file()
    found: dict[Path, Job] = {}
    for path in paths:
        for source, relative in _sources(path):
            target = _target(source, relative, output, in_place=in_place, single=single)
            root = output if output is not None and not single else None
            top = path if path.is_dir() else target.parent
            found.setdefault(source, Job(source=source, target=target, root=root or top))
    return tuple(found.values())


def _sources(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_file():
        yield path, path.name
        return
    found = sorted(_walk(path))
    if not found:
        raise UsageError(
            error_id="folder-empty",
            message=f"there is no Python file in `{path}`",
            hint="give a folder that holds `.py` files",
            file=str(path),
        )
    yield from ((source, str(source.relative_to(path))) for source in found)


def left_out(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder that no port of it has: what is no Python, without hidden files."""
    found = (path for path in _files(folder) if not path.name.endswith(_SUFFIXES))
    return tuple(sorted(path for path in found if not path.name.startswith(".")))


def _walk(folder: Path) -> Iterator[Path]:
    yield from (path for path in _files(folder) if path.name.endswith(_SUFFIXES))


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")
        ]
        if "pyvenv.cfg" in files:
            folders[:] = []
            continue
        # Regular files only: a link that leads nowhere holds no program, and to open a pipe would wait.
        paths = (Path(root) / name for name in files)
        yield from (path for path in paths if path.is_file())


def _target(
    source: Path, relative: str, output: Path | None, *, in_place: bool, single: bool
) -> Path:
    if in_place:
        return source
    if output is None:
        return source.with_name(f"{source.stem}{_SUFFIX}{source.suffix}")
    return output if single and not output.is_dir() else output / relative


@final
class Contents:
    """The bytes of the files, and the Python text that they hold."""

    def __init__(self, files: Mapping[Path, bytes]) -> None:
        self.raw = dict(files)
        self.python: dict[Path, bytes] = {}
        self.errors: dict[Path, FileError] = {}
        self._notebooks: dict[Path, Notebook] = {}
        for path, data in files.items():
            if path.suffix != ".ipynb":
                self.python[path] = data
                continue
            try:
                self._notebooks[path] = Notebook.read(data)
            except UnreadableError as problem:
                self.errors[path] = problem.error
            else:
                self.python[path] = self._notebooks[path].python

    def notebook(self, path: Path) -> Notebook | None:
        """Return the notebook that a file is, if it is one."""
        return self._notebooks.get(path)

    def restore(self, path: Path, text: str, data: bytes) -> bytes:
        """Return the bytes of a ported file, given its Python as text and as bytes."""
        notebook = self._notebooks.get(path)
        return data if notebook is None else notebook.with_python(text)


def read_files(sources: tuple[Path, ...]) -> Contents:
    """Read all files.

    Raises:
        UsageError: one cannot be read.
    """
    return Contents({path: _read(path) for path in sources})


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            error_id="path-unreadable",
            message=f"`{path}` cannot be read: {problem.strerror}",
            hint="check the permissions",
            file=str(path),
        ) from problem
