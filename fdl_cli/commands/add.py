"""`fdl add`: one part more for a project that `fdl init` made."""

from dataclasses import dataclass
from typing import Annotated, Literal, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.scaffold_report import ScaffoldData, show
from fdl_cli.commands.scaffold_update import UpdateOptions, project_root, update_project
from fdl_cli.context import Context
from fdl_cli.result import CommandResult
from fdl_cli.scaffold.answers import Part, with_part
from fdl_cli.scaffold.record import read_record

AddedPart = Literal[
    "docker", "devcontainer", "ci", "hf", "flodl-hf", "guide", "pre-commit", "monitor"
]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """The part to add, and how carefully."""

    part: Part
    dry_run: bool
    allow_dirty: bool


def parse(
    part: Annotated[
        AddedPart,
        typer.Argument(
            metavar="PART", help="docker, devcontainer, ci, hf, guide, pre-commit or monitor."
        ),
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be written; write nothing.")
    ] = False,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Despite uncommitted changes.")
    ] = False,
) -> AddOptions:
    """Add a part to the project you are in; your edits are merged, not overwritten.

    docker: tasks run in containers. devcontainer: for editors (brings docker). ci: a workflow.
    hf (or flodl-hf): a Hugging Face encoder as a graph node. guide: notes for assistants, editor settings.
    pre-commit: hooks that run `fdl lint` and `fdl types` before a commit.
    monitor: runs that are recorded, for `fdl monitor`; every project has this from the start.
    """
    return AddOptions(part=_part(part), dry_run=dry_run, allow_dirty=allow_dirty)


def _part(added: AddedPart) -> Part:
    if added == "flodl-hf":  # in the Rust framework this part is a separate package
        return "hf"
    return "base" if added == "monitor" else added


def run(context: Context, options: AddOptions) -> CommandResult[ScaffoldData]:
    """Merge the templates of the part into the project.

    Raises:
        NotFoundError: there is no project made by `fdl init` here.
        ConflictError: there are uncommitted changes.
    """
    record = read_record(project_root(context.cwd))
    wanted = UpdateOptions(
        dry_run=options.dry_run,
        allow_dirty=options.allow_dirty,
        answers=with_part(record.answers, options.part),
    )
    return update_project(context, COMMAND.schema, wanted)


COMMAND = Command(schema="fdl.add/1", data=ScaffoldData, parse=parse, run=run, show=show)
