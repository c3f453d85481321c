"""Report of `fdl init` and `fdl add`: every file with its action."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.console import Console
from fdl_cli.result import CommandResult
from fdl_cli.scaffold.plan import Action, PlannedFile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """One file and its action; `reason` is empty where the action says it all."""

    path: str
    action: Action
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldData:
    """A project after (or, with `dry_run`, before) its files were written."""

    root: Path
    name: str
    package: str
    mode: str
    parts: tuple[str, ...]
    dry_run: bool
    files: tuple[FileReport, ...]
    next_steps: tuple[str, ...]


def reports(planned: tuple[PlannedFile, ...]) -> tuple[FileReport, ...]:
    """Return the report of every file."""
    return tuple(
        FileReport(path=step.path, action=step.action, reason=step.reason) for step in planned
    )


def show(result: CommandResult[ScaffoldData], console: Console) -> None:
    """Print the files on stderr and the next steps on stdout."""
    data = result.data
    changed = [file for file in data.files if file.action != "same"]
    for file in changed:
        reason = f"  ({file.reason})" if file.reason else ""
        console.note(f"{file.action:>8}  {file.path}{reason}")
    if not changed:
        console.note("every file is as the templates have it")
    if data.dry_run:
        console.note("nothing was written: this was a dry run")
    for step in data.next_steps:
        console.line(step)
