"""Output of a planned project: a new folder appears whole, an existing one changes at once."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fdl_cli.errors import ConflictError, OperationFailedError
from fdl_cli.scaffold.plan import PlannedFile
from fdl_cli.scaffold.record import RECORD
from fdl_cli.system.transaction import FileChange, apply_changes

Prepare = Callable[[Path], None]


def create_project(
    root: Path, planned: tuple[PlannedFile, ...], record: str, prepare: Prepare
) -> None:
    """Write a project into a folder that does not exist yet, or is empty.

    It is built beside its place, `prepare` (version control) is done there, and one rename puts
    it into place, so that half a project is never visible.

    Raises:
        ConflictError: something took the place in the meantime.
        OperationFailedError: the folder cannot be written.
    """
    staging: Path | None = None
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=root.parent, prefix=f".{root.name}-", suffix=".tmp"))
        staging.chmod(0o777 & ~_umask())
        apply_changes(staging, changes_of(planned, record))
        prepare(staging)
        staging.rename(root)
    except BaseException as problem:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        if isinstance(problem, OSError):
            raise _cannot_write(root, problem) from problem
        raise


def change_project(root: Path, planned: tuple[PlannedFile, ...], record: str) -> None:
    """Change the files of an existing folder together.

    Raises:
        ConflictError: a path leads out of the folder.
        OperationFailedError: the folder cannot be written.
    """
    try:
        apply_changes(root, changes_of(planned, record))
    except OSError as problem:
        raise _cannot_write(root, problem) from problem


def changes_of(planned: tuple[PlannedFile, ...], record: str) -> tuple[FileChange, ...]:
    """Return the changes of a plan, the record last."""
    changes = [
        FileChange(path=step.path, data=None if step.text is None else step.text.encode())
        for step in planned
        if step.text is not None or step.action == "remove"
    ]
    return (*changes, FileChange(path=RECORD, data=record.encode()))


def _cannot_write(root: Path, problem: OSError) -> ConflictError | OperationFailedError:
    if root.exists() and isinstance(problem, FileExistsError):
        return ConflictError(
            error_id="project-exists",
            message=f"`{root}` appeared while the project was being written",
            hint="choose another name",
        )
    return OperationFailedError(
        error_id="project-write",
        message=f"cannot write the project: {problem.strerror or problem}",
        hint="check the free space and the permissions of the folder above it",
        file=str(root),
    )


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
