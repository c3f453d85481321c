"""Loading of a manifest: read every layer, check each, merge them, check the whole."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.errors import ConfigError, NotFoundError
from fdl_cli.manifest.discover import read_layer
from fdl_cli.manifest.model import LOCAL, MANIFEST, Layer, Tree, overlay_name
from fdl_cli.manifest.reading.document import Document, Leaf, Place, Problem, Table, parse
from fdl_cli.manifest.reading.needs import find_need_problems
from fdl_cli.manifest.reading.overlay import merge, plain, without_nulls
from fdl_cli.manifest.reading.rules import CHILD_KEYS, PROJECT_KEYS, Key, find_key_problems
from fdl_cli.manifest.tasks import find_task_problems

DEEPEST: Final = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A valid manifest: the merged table with the place of every value, and its source files.

    `layers` are all files that were looked at, also those which do not exist; `digest` changes
    when any of them does.
    """

    root: Path
    environment: str | None
    table: Table
    layers: tuple[Layer, ...]
    digest: str

    @property
    def tree(self) -> Tree:
        """Return the merged manifest without places, as running needs it."""
        tree = plain(self.table)
        assert isinstance(tree, dict)
        return tree

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that exist, lowest layer first."""
        return tuple(Path(layer.path) for layer in self.layers if layer.text is not None)


def load(root: Path, environment: str | None) -> Manifest:
    """Load the manifest of a project with an environment's overlay and the local one.

    Raises:
        NotFoundError: the environment has no overlay.
        ConfigError: something is wrong in a file; all problems are listed.
    """
    loader = _Loader(root)
    table = loader.folder(root, environment, PROJECT_KEYS)
    commands = table.entries.get("commands")
    if isinstance(commands, Table) and not loader.problems:
        commands = loader.with_children(commands, root, environment, 0)
        table = Table({**table.entries, "commands": commands}, table.place)
    table = without_nulls(table)
    commands = table.entries.get("commands")
    if isinstance(commands, Table) and not loader.problems:
        loader.problems += find_task_problems(commands)
        loader.problems += find_need_problems(commands)
    if loader.problems:
        raise _config_error(root, loader.problems)
    return Manifest(
        root=root,
        environment=environment,
        table=table,
        layers=tuple(loader.layers),
        digest=_digest(loader.layers),
    )


def environments(root: Path) -> tuple[str, ...]:
    """Return the names of a project's overlays."""
    found = []
    for path in root.glob(overlay_name("*")):
        name = path.name.removeprefix("fdl.").removesuffix(".yml")
        if path.name not in (MANIFEST, LOCAL) and name:
            found.append(name)
    return tuple(sorted(found))


@final
class _Loader:
    """Reads files once and collects their problems."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layers: list[Layer] = []
        self.problems: list[Problem] = []

    def folder(self, folder: Path, environment: str | None, keys: Mapping[str, Key]) -> Table:
        """Return the merged table of one folder: base, overlays, local overlay."""
        table = self._file(folder / MANIFEST, keys)
        commands = table.entries.get("commands")
        for name, node in commands.entries.items() if isinstance(commands, Table) else ():
            if isinstance(node, Leaf) and node.value is None:
                message = f"the task `{name}` is empty"
                self.problems.append(
                    Problem(node.place, message, f"write `{name}: {{path: {name}}}`")
                )
        for path in self._overlays(folder, environment):
            table = merge(table, self._file(path, keys))
        return merge(table, self._file(folder / LOCAL, keys))

    def with_children(
        self, commands: Table, folder: Path, environment: str | None, depth: int
    ) -> Table:
        """Return the tasks with the manifests of `path:` tasks laid under them."""
        entries = dict(commands.entries)
        for name, node in commands.entries.items():
            if not isinstance(node, Table):
                continue
            task, home = node, folder
            path = node.entries.get("path")
            if isinstance(path, Leaf) and path.value is not None:
                home = folder / str(path.text)
                task = self._child(node, path, home, environment, depth)
            inner = task.entries.get("commands")
            if isinstance(inner, Table):
                inner = self.with_children(inner, home, environment, depth + 1)
                task = Table({**task.entries, "commands": inner}, task.place)
            entries[name] = task
        return Table(entries, commands.place)

    def _child(
        self, task: Table, path: Leaf, home: Path, environment: str | None, depth: int
    ) -> Table:
        if not (home / MANIFEST).is_file() or depth >= DEEPEST:
            message = f"there is no `{path.text}/{MANIFEST}`"
            if depth >= DEEPEST:
                message = f"`path: {path.text}` nests more than {DEEPEST} folders"
            self.problems.append(Problem(path.place, message, "create it, or correct the folder"))
            return task
        child = self.folder(home, environment, CHILD_KEYS)
        folder = Leaf(str(home), str(home), path.place)
        merged = merge(child, task)
        # Absolute from here on: relative folders in a child's manifest count from its own.
        return Table({**merged.entries, "path": folder}, task.place)

    def _overlays(self, folder: Path, environment: str | None) -> list[Path]:
        chain: list[Path] = []
        name = environment
        while name is not None:
            path = folder / overlay_name(name)
            if path in chain:
                place = Place(self._shown(path), 1, 1)
                self.problems.append(
                    Problem(place, "overlays inherit from each other", "break the circle")
                )
                break
            layer = read_layer(str(path))
            if layer.text is None and folder == self.root:
                raise self._no_overlay(name, chain)
            chain.append(path)
            parent = parse(layer.text or b"", str(path)).table.entries.get("inherit-from")
            name = str(parent.text) if isinstance(parent, Leaf) and parent.value else None
        return chain[::-1]

    def _no_overlay(self, name: str, chain: list[Path]) -> NotFoundError:
        known = environments(self.root)
        return NotFoundError(
            error_id="overlay-unknown",
            message=f"there is no overlay `{overlay_name(name)}` in `{self.root}`",
            hint=f"this project has: {', '.join(known)}"
            if known
            else "create it, or leave it out",
            file=self._shown(chain[-1]) if chain else None,
        )

    def _file(self, path: Path, keys: Mapping[str, Key]) -> Table:
        layer = self._read(path)
        self.layers.append(layer)
        document: Document = parse(layer.text or b"", self._shown(path))
        self.problems += document.problems
        self.problems += find_key_problems(document.table, keys)
        return document.table

    def _read(self, path: Path) -> Layer:
        try:
            return read_layer(str(path))
        except OSError as problem:
            place = Place(self._shown(path), 1, 1)
            reason = problem.strerror or "unreadable"
            self.problems.append(
                Problem(place, f"cannot be read: {reason}", f"`chmod u+r {path}`")
            )
            return Layer(str(path), None)

    def _shown(self, path: Path) -> str:
        return os.path.relpath(path, self.root)


def _digest(layers: list[Layer]) -> str:
    total = hashlib.sha256()
    for layer in layers:
        if layer.text is not None:
            total.update(f"{Path(layer.path).name} {len(layer.text)}\n".encode())
            total.update(layer.text)
    return total.hexdigest()[:16]


def _config_error(root: Path, problems: list[Problem]) -> ConfigError:
    found = sorted(set(problems), key=lambda item: (item.place.file != MANIFEST, item.place))
    first = found[0]
    others = found[1:]
    return ConfigError(
        error_id="manifest-invalid",
        message=first.message,
        hint=first.hint,
        file=str(root / first.place.file),
        line=first.place.line,
        column=first.place.column,
        causes=tuple(
            f"also {item.place.file}:{item.place.line}:{item.place.column}: "
            f"{item.message} ({item.hint})"
            for item in others
        ),
    )
