"""`fdl run --options`: the options that entries told, and the JSON Schema of `fdl.yml` itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

import typer

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.task_context import surroundings
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.manifest.entries import (
    EntryState,
    clear,
    entry_states,
    refresh,
    require_entries,
)
from fdl_cli.manifest.project import open_project
from fdl_cli.manifest.reading.manifest_schema import manifest_schema
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOptions:
    """The entry; all of them without a name."""

    task: str | None
    env: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesData:
    """The known state of each entry after the command; `cleared` names those forgotten by it."""

    entries: tuple[EntryState, ...]
    cleared: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSchemaData:
    """The JSON Schema of `fdl.yml`."""

    json_schema: Mapping[str, Any]


_Env = Annotated[str | None, typer.Option("--env", help="Lay `fdl.NAME.yml` over the manifest.")]
_Task = Annotated[str | None, typer.Argument(help="The task; by default all with an entry.")]


def parse_list(*, env: _Env = None) -> EntryOptions:
    """List the entries of the project, and whether their options are known."""
    return EntryOptions(task=None, env=env)


def parse_one(task: _Task = None, *, env: _Env = None) -> EntryOptions:
    """Forget, or query again, the options of entries."""
    return EntryOptions(task=task, env=env)


def parse_manifest() -> None:
    """Print the JSON Schema of `fdl.yml`, for editors."""


def run_list(context: Context, options: EntryOptions) -> CommandResult[EntriesData]:
    """Read the known options."""
    stored = open_project(surroundings(context), options.env).stored
    states = entry_states(stored, context.environ)
    data = EntriesData(entries=states, cleared=())
    return CommandResult(schema="fdl.schema.list/1", data=data)


def run_clear(context: Context, options: EntryOptions) -> CommandResult[EntriesData]:
    """Forget the known options."""
    stored = open_project(surroundings(context), options.env).stored
    cleared = tuple(
        " ".join(found.names)
        for found in require_entries(stored, options.task)
        if clear(stored, found, context.environ)
    )
    data = EntriesData(entries=entry_states(stored, context.environ), cleared=cleared)
    return CommandResult(schema="fdl.schema.clear/1", data=data)


def run_refresh(context: Context, options: EntryOptions) -> CommandResult[EntriesData]:
    """Query the entries again."""
    stored = open_project(surroundings(context), options.env).stored
    found = require_entries(stored, options.task)
    states = tuple(refresh(stored, item, context.environ) for item in found)
    data = EntriesData(entries=states, cleared=())
    return CommandResult(schema="fdl.schema.refresh/1", data=data)


def run_manifest(context: Context, options: None) -> CommandResult[ManifestSchemaData]:  # noqa: ARG001 - as every command
    """Describe the manifest."""
    data = ManifestSchemaData(json_schema=manifest_schema())
    return CommandResult(schema="fdl.schema.manifest/1", data=data)


def show_entries(result: CommandResult[EntriesData], console: Console) -> None:
    """Print one line for each entry."""
    for task in result.data.cleared:
        console.note(f"forgot the options of {task}")
    for entry in result.data.entries:
        options = ", ".join(f"--{name}" for name in entry.options)
        console.line(f"{entry.task}: {entry.state}  {options or entry.reason}".rstrip())
    if not result.data.entries:
        console.note("no task of this project has an `entry`")


def show_manifest(result: CommandResult[ManifestSchemaData], console: Console) -> None:
    """Print the schema."""
    console.line(json.dumps(result.data.json_schema, indent=2))


COMMAND = CommandGroup(
    summary="The options of the project's entries, and the form of fdl.yml.",
    summaries={
        "list": "which entries told their options",
        "clear": "forget the options of entries",
        "refresh": "ask entries for their options again",
        "manifest": "the JSON Schema of fdl.yml, for editors",
    },
    commands={
        "list": Command(
            schema="fdl.schema.list/1",
            data=EntriesData,
            parse=parse_list,
            run=run_list,
            show=show_entries,
        ),
        "clear": Command(
            schema="fdl.schema.clear/1",
            data=EntriesData,
            parse=parse_one,
            run=run_clear,
            show=show_entries,
        ),
        "refresh": Command(
            schema="fdl.schema.refresh/1",
            data=EntriesData,
            parse=parse_one,
            run=run_refresh,
            show=show_entries,
        ),
        "manifest": Command(
            schema="fdl.schema.manifest/1",
            data=ManifestSchemaData,
            parse=parse_manifest,
            run=run_manifest,
            show=show_manifest,
        ),
    },
)
