"""`fdl run --list`: the tasks of the project, with the file and line of each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.task_context import surroundings
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.manifest.describe import rows
from fdl_cli.manifest.project import open_project
from fdl_cli.manifest.reading.document import Table
from fdl_cli.manifest.reading.load import environments
from fdl_cli.manifest.reading.overlay import lookup
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TasksOptions:
    """The tasks to list."""

    env: str | None
    all: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """One task: the place of its definition, and where it runs."""

    name: str
    summary: str
    group: str
    hidden: bool
    docker: str | None
    file: Path
    line: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TasksData:
    """The tasks in the order of the manifest, and the project's overlays."""

    root: Path
    overlay: str | None
    overlays: tuple[str, ...]
    tasks: tuple[TaskData, ...]


def parse(
    *,
    env: Annotated[
        str | None, typer.Option("--env", help="Lay `fdl.NAME.yml` over the manifest.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Hidden tasks too.")] = False,
) -> TasksOptions:
    """List the tasks of the project."""
    return TasksOptions(env=env, all=everything)


def run(context: Context, options: TasksOptions) -> CommandResult[TasksData]:
    """Load the manifest and list its tasks."""
    project = open_project(surroundings(context), options.env)
    manifest = project.manifest
    tasks = []
    for row in rows(manifest.tree, hidden=options.all):
        node = lookup(manifest.table, ("commands", row.name))
        assert isinstance(node, Table)
        service, hidden = node.entries.get("docker"), node.entries.get("hidden")
        tasks.append(
            TaskData(
                name=row.name,
                summary=row.summary,
                group=row.group,
                hidden=not (hidden is None or isinstance(hidden, Table)) and bool(hidden.value),
                docker=None
                if service is None or isinstance(service, Table)
                else str(service.text),
                file=manifest.root / node.place.file,
                line=node.place.line,
            )
        )
    data = TasksData(
        root=manifest.root,
        overlay=manifest.environment,
        overlays=environments(manifest.root),
        tasks=tuple(tasks),
    )
    return CommandResult(schema="fdl.tasks/1", data=data)


def show(result: CommandResult[TasksData], console: Console) -> None:
    """Print the tasks by group."""
    data = result.data
    if not data.tasks:
        console.note(f"no tasks in {data.root / 'fdl.yml'}")
        return
    width = max(len(task.name) for task in data.tasks)
    for group in dict.fromkeys(task.group for task in data.tasks):
        console.line(f"{group}:", "strong")
        for task in data.tasks:
            if task.group == group:
                where = f" [{task.docker}]" if task.docker else ""
                console.line(f"  {task.name:{width}}  {task.summary}{where}".rstrip())
    if data.overlays:
        console.line(f"Overlays: {', '.join(data.overlays)}")


COMMAND = Command(schema="fdl.tasks/1", data=TasksData, parse=parse, run=run, show=show)
