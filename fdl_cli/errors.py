"""Every way `fdl` can fail, with the exit code and the hint that people see."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A warning which does not change the outcome; `id` is stable and kebab-case."""

    id: str
    message: str
    hint: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """One number a shell may see after `fdl`, and its meaning."""

    code: str
    name: str
    meaning: str


class FdlError(Exception):
    """An expected failure: shown as `error[id]: message` and a hint, never as a traceback.

    Raise one of the subclasses below; each stands for one kind of failure and one exit code.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        *,
        error_id: str,
        message: str,
        hint: str,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.error_id = error_id
        self.message = message
        self.hint = hint
        self.file = file
        self.line = line
        self.column = column
        self.causes = causes

    @property
    def location(self) -> str:
        """Return `file:line:column`, or less of it, as far as the place is known."""
        parts = (self.file, self.line, self.column)
        known = parts[: parts.index(None)] if None in parts else parts
        return ":".join(str(part) for part in known)


@final
class OperationFailedError(FdlError):
    """The requested action was tried and did not succeed."""

    exit_code = 1


@final
class UsageError(FdlError):
    """The command line itself is wrong, or names an input that cannot be read."""

    exit_code = 2


@final
class ConfigError(FdlError):
    """A manifest or a configuration file is invalid."""

    exit_code = 3


@final
class NotFoundError(FdlError):
    """A project, task, overlay, skill or name does not exist."""

    exit_code = 4


@final
class EnvironmentLackingError(FdlError):
    """The machine lacks something: docker, torch, the network, a GPU."""

    exit_code = 5


@final
class ConflictError(FdlError):
    """Going on would overwrite something, or conflicts are left."""

    exit_code = 6


@final
class NeedsTerminalError(FdlError):
    """A prompt must be answered and there is no terminal for it."""

    exit_code = 7


def storage_error(problem: OSError, own_folders: Sequence[str]) -> FdlError | None:
    """Return the error for a disk that is full or a place that may not be used; None for other problems.

    Args:
        problem: the operating system's message.
        own_folders: the folders of fdl itself, in which nothing but fdl decides what exists.
    """
    place = problem.filename if isinstance(problem.filename, str) else ""
    # A folder above them counts: it could not be made, or is none.
    below = bool(place) and any(
        f"{place}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{place}/")
        for folder in own_folders
    )
    reason = problem.strerror or str(problem)
    where = f"`{place}`" if place else "a file"
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentLackingError(
            error_id="disk-full",
            message=f"cannot write {where}: {reason}",
            hint="free some space (`df -h` shows where), then run the same command again",
        )
    barred = problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
    if barred or (below and problem.errno == errno.ENOENT):
        return EnvironmentLackingError(
            error_id="place-not-usable",
            message=f"cannot use {where}: {reason}",
            hint="let FLODL_HOME name a folder that you may write: `export FLODL_HOME=/tmp/flodl`"
            if below
            else f"look at its permissions: `ls -ld {place or '.'}`",
        )
    return None


EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

EXIT_CODES: tuple[ExitCode, ...] = (
    ExitCode(code="0", name="success", meaning="done; also help shown on request"),
    ExitCode(code="1", name="failed", meaning="the operation failed or a check found problems"),
    ExitCode(
        code="2", name="usage", meaning="wrong command line: unknown option, unreadable input"
    ),
    ExitCode(code="3", name="config", meaning="a manifest or configuration file is invalid"),
    ExitCode(code="4", name="not-found", meaning="project, task, overlay, skill or name missing"),
    ExitCode(
        code="5", name="environment", meaning="the machine lacks docker, torch, network, GPU ..."
    ),
    ExitCode(code="6", name="conflict", meaning="would overwrite, or conflicts are left"),
    ExitCode(code="7", name="needs-terminal", meaning="a question cannot be asked here"),
    ExitCode(
        code=str(EXIT_INTERNAL), name="internal", meaning="a bug in fdl; a report file is written"
    ),
    ExitCode(code=str(EXIT_INTERRUPTED), name="interrupted", meaning="stopped by Ctrl-C"),
    ExitCode(code=str(EXIT_BROKEN_PIPE), name="broken-pipe", meaning="the reader of a pipe left"),
    ExitCode(code="128+n", name="signal", meaning="a child process was ended by signal n"),
)
