"""`fdl runs`: the runs of this project, with the manifest and commit of each and how it ended."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.manifest.history import RunRecord, find_run, read_history
from fdl_cli.manifest.project import require_root
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOptions:
    """The runs to show."""

    run: str | None
    limit: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunsData:
    """The runs, the latest first; a single one when its id was given."""

    root: Path
    single: bool
    runs: tuple[RunRecord, ...]


def parse(
    run: Annotated[str | None, typer.Argument(metavar="ID", help="Show one run in full.")] = None,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to list.")] = 20,
) -> RunsOptions:
    """List what was run in this project, the latest first.

    Exit code and duration stay unknown while a task runs, and if fdl itself was killed.
    `FDL_NO_RECORD=1` turns recording off.
    """
    return RunsOptions(run=run, limit=limit)


def run(context: Context, options: RunsOptions) -> CommandResult[RunsData]:
    """Read the records of this project."""
    root = require_root(context.cwd)
    records = read_history(root, context.environ)
    if options.run is not None:
        records = (find_run(records, options.run),)
    data = RunsData(root=root, single=options.run is not None, runs=records[: options.limit])
    return CommandResult(schema="fdl.runs/1", data=data)


def show(result: CommandResult[RunsData], console: Console) -> None:
    """Print a table, or one run in full."""
    if result.data.single:
        _show_one(result.data.runs[0], console)
        return
    if not result.data.runs:
        console.note("nothing was run here yet")
        return
    rows = [(r.id, _when(r), _ended(r), (r.git or "")[:8], r.command) for r in result.data.runs]
    console.table(("id", "started", "ended", "commit", "command"), rows)


def _show_one(record: RunRecord, console: Console) -> None:
    console.line(f"run       {record.id}", "strong")
    console.line(f"task      {record.task}")
    console.line(f"command   {record.command}")
    console.line(f"folder    {record.folder}")
    console.line(f"where     {record.service or 'here'}")
    console.line(f"overlay   {record.overlay or 'none'}")
    console.line(f"started   {_when(record)}")
    console.line(f"ended     {_ended(record)}")
    console.line(f"commit    {record.git or 'none'}")
    console.line(f"manifest  {record.digest}")
    for name, value in record.env.items():
        console.line(f"  {name}={value}")


def _when(record: RunRecord) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.started_s))


def _ended(record: RunRecord) -> str:
    if record.exit_code is None:
        return "not seen"
    return f"code {record.exit_code}, {record.seconds:.1f} s"


COMMAND = Command(schema="fdl.runs/1", data=RunsData, parse=parse, run=run, show=show)
