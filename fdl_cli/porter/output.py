"""Output of a run: all ports or none, and never over a file that would be lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import ConflictError, EnvironmentLackingError, OperationFailedError
from fdl_cli.system.atomic import write_whole
from fdl_cli.system.process import run
from fdl_cli.system.transaction import PENDING, FileChange, apply_changes, recover


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One file to write; its folder `root` changes as a whole. `replaces` is the source itself."""

    path: Path
    root: Path
    data: bytes
    replaces: bool


def finish_interrupted(roots: tuple[Path, ...]) -> None:
    """Complete the writes that a killed run had decided on."""
    for root in dict.fromkeys(roots):
        if (root / PENDING).is_dir():
            recover(root)


def write_all(files: tuple[OutputFile, ...], *, force: bool) -> None:
    """Write all files, or none: conflicts are found first and listed together.

    Raises:
        ConflictError: an output exists already and differs.
        OperationFailedError: a file or folder cannot be written.
    """
    wanted = [item for item in files if not _same(item)]
    conflicts = [item.path for item in wanted if item.path.exists() and not item.replaces]
    if conflicts and not force:
        raise ConflictError(
            error_id="output-exists",
            message=f"`{conflicts[0]}` exists and is different",
            hint="overwrite it with --force, or choose another output with -o",
            file=str(conflicts[0]),
            causes=tuple(f"so does `{path}`" for path in conflicts[1:]),
        )
    try:
        _write(wanted)
    except OSError as problem:
        raise OperationFailedError(
            error_id="output-write",
            message=f"the port cannot be written: {problem.strerror or problem}",
            hint="choose a place that you may write with -o; --diff shows the port",
            file=str(wanted[0].path),
        ) from problem


def _write(wanted: list[OutputFile]) -> None:
    if len(wanted) == 1:
        write_whole(wanted[0].path, wanted[0].data)
        return
    by_root: dict[Path, list[OutputFile]] = {}
    for item in wanted:
        by_root.setdefault(item.root, []).append(item)
    for root, items in by_root.items():
        root.mkdir(parents=True, exist_ok=True)
        changes = [
            FileChange(path=str(item.path.relative_to(root)), data=item.data) for item in items
        ]
        apply_changes(root, changes)


def require_clean(roots: Mapping[Path, tuple[Path, ...]]) -> None:
    """Refuse to replace files that git could not bring back; folders outside git are not checked.

    Raises:
        ConflictError: a work tree has changes that are not committed.
    """
    for root, files in roots.items():
        changed = _uncommitted(root, files)
        if changed:
            raise ConflictError(
                error_id="git-not-clean",
                message=f"`{root}` has changes that are not committed: {changed[0]}",
                hint="commit or stash them first, or add --force",
                file=str(root),
                causes=tuple(f"also {line}" for line in changed[1:5]),
            )


def _uncommitted(root: Path, files: tuple[Path, ...]) -> list[str]:
    """Return git's list of changed files, and those to be replaced that it does not know."""
    try:
        tracked = run(
            ["git", "status", "--porcelain", "--untracked-files=no"], cwd=root, check=False
        )
        if tracked.returncode != 0:
            return []
        names = [str(path.relative_to(root)) for path in files]
        own = run(["git", "status", "--porcelain", "--ignored", "--", *names], cwd=root)
    except (EnvironmentLackingError, OperationFailedError):
        return []
    lines = [*tracked.stdout.splitlines(), *own.stdout.splitlines()]
    return [line.strip() for line in dict.fromkeys(lines)]


def _same(item: OutputFile) -> bool:
    return item.path.is_file() and item.path.read_bytes() == item.data
