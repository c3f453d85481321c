"""`fdl runs --again`: run a recorded run again, with the manifest as it is now."""

from dataclasses import dataclass
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.run import RunData, RunOptions, show
from fdl_cli.commands.run import run as run_task
from fdl_cli.commands.task_context import surroundings
from fdl_cli.context import Context
from fdl_cli.errors import Notice
from fdl_cli.manifest.history import RunRecord, find_run, read_history
from fdl_cli.manifest.model import Flags
from fdl_cli.manifest.project import open_project, require_root
from fdl_cli.manifest.records import git_commit
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RerunOptions:
    """The run to repeat, and how to run it this time."""

    run: str | None
    dry_run: bool
    wait: bool
    yes: bool


def parse(
    run: Annotated[
        str | None, typer.Argument(metavar="ID", help="The run; by default the latest.")
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show the command, run nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until it ends even where nothing is recorded.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Answer its question with yes.")
    ] = False,
) -> RerunOptions:
    """Run a recorded run again: same task, overlay and arguments.

    The manifest and the code are those of now; a warning says if they are not those of then.
    """
    return RerunOptions(run=run, dry_run=dry_run, wait=wait, yes=yes)


def run(context: Context, options: RerunOptions) -> CommandResult[RunData]:
    """Find the record and run its words."""
    root = require_root(context.cwd)
    record = find_run(read_history(root, context.environ), options.run)
    project = open_project(surroundings(context), record.overlay)
    for notice in _differences(record, project.stored.digest, git_commit(str(root))):
        # Shown before the start: the task may replace this process.
        context.console.warning(notice)
    flags = Flags(
        environment=record.overlay,
        dry_run=options.dry_run,
        append=record.append,
        place=record.place,
        wait=options.wait,
        yes=options.yes,
    )
    again = RunOptions(words=record.words, flags=flags, overlay_word=False)
    result = run_task(context, again)
    return CommandResult(
        schema="fdl.rerun/1", data=result.data, ok=result.ok, exit_code=result.exit_code
    )


def _differences(record: RunRecord, digest: str, commit: str | None) -> tuple[Notice, ...]:
    found = []
    if record.digest != digest:
        found.append(
            Notice(
                id="manifest-changed",
                message="fdl.yml or an overlay changed since that run",
                hint=f"`fdl runs {record.id}` shows what ran then",
            )
        )
    if record.git is not None and record.git != commit:
        found.append(
            Notice(
                id="commit-changed",
                message=f"that run was of commit {record.git[:8]}, this is {(commit or 'none')[:8]}",
                hint=f"`git checkout {record.git[:8]}` gives the code of then",
            )
        )
    return tuple(found)


COMMAND = Command(schema="fdl.rerun/1", data=RunData, parse=parse, run=run, show=show)
