"""`fdl why --manifest`: the merged manifest, with the file and line of every value."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.task_context import surroundings
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.manifest.plan import Setting, settings_of, shown
from fdl_cli.manifest.project import open_project
from fdl_cli.manifest.reading.document import Table
from fdl_cli.manifest.reading.overlay import lookup
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """The overlay, and the amount of output."""

    overlay: str | None
    origin: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShowData:
    """The merged manifest as YAML, and every value with its origin."""

    root: Path
    overlay: str | None
    files: tuple[Path, ...]
    digest: str
    settings: tuple[Setting, ...]
    yaml: str


def parse(
    overlay: Annotated[
        str | None, typer.Argument(help="The overlay, as in `fdl.NAME.yml`.")
    ] = None,
    *,
    env: Annotated[str | None, typer.Option("--env", help="The same.")] = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Name the file and line of every value.")
    ] = False,
) -> ShowOptions:
    """Show the manifest as it is after all overlays."""
    return ShowOptions(overlay=overlay or env, origin=origin)


def run(context: Context, options: ShowOptions) -> CommandResult[ShowData]:
    """Load and merge the manifest."""
    manifest = open_project(surroundings(context), options.overlay).manifest
    data = ShowData(
        root=manifest.root,
        overlay=manifest.environment,
        files=manifest.files,
        digest=manifest.digest,
        settings=settings_of(manifest, ()),
        yaml="\n".join(_yaml(manifest.table, 0, origin=options.origin)) + "\n",
    )
    return CommandResult(schema="fdl.config.show/1", data=data)


def show(result: CommandResult[ShowData], console: Console) -> None:
    """Print the manifest as YAML; origins are comments, so that it stays YAML."""
    console.write(result.data.yaml)


def _yaml(table: Table, depth: int, *, origin: bool) -> list[str]:
    lines: list[str] = []
    for name in table.entries:
        node = lookup(table, (name,))
        assert node is not None
        key = f"{'  ' * depth}{name}:"
        if isinstance(node, Table) and node.entries:
            lines += [key, *_yaml(node, depth + 1, origin=origin)]
            continue
        place = f"  # {node.place.file}:{node.place.line}" if origin else ""
        lines.append(f"{key} {shown(node)}{place}")
    return lines


COMMAND = CommandGroup(
    summary="Look at the project's configuration.",
    summaries={"show": "the manifest after all overlays, with origins"},
    commands={
        "show": Command(schema="fdl.config.show/1", data=ShowData, parse=parse, run=run, show=show)
    },
)
