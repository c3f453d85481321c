"""`fdl port`: turn PyTorch files into the same programs on the flow-graph runtime."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import OperationFailedError
from fdl_cli.result import CommandResult

TrainingLevel = Literal["keep"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """What to port, where to write it and how far to prove it."""

    paths: tuple[Path, ...]
    output: Path | None
    in_place: bool
    diff: bool
    check: bool
    strict: bool
    verify: bool
    examples: tuple[str, ...]
    training: TrainingLevel
    force: bool
    show_plan: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PortData:
    """What came of every file; the porter's room fills it."""

    files: tuple[str, ...]


def parse(
    *,
    paths: Annotated[
        list[Path], typer.Argument(help="Python files, or folders with them.", metavar="PATH...")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the port to this file or folder.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the files themselves.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the change; write nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if there is something to port.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 unless every class became a graph.")
    ] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not run original and port side by side.")
    ] = False,
    example: Annotated[
        list[str] | None,
        typer.Option("--example", help='How to call a class: "Net(10): torch.randn(2, 3)".'),
    ] = None,
    training: Annotated[
        TrainingLevel, typer.Option("--training", help="How far training code moves.")
    ] = "keep",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    show_plan: Annotated[
        bool, typer.Option("--show-plan", help="Print what was understood and decided.")
    ] = False,
) -> PortOptions:
    """Port PyTorch scripts to flow graphs and prove that they compute the same.

    Without -o or --in-place, `model.py` becomes `model_flodl.py` beside it.
    """
    return PortOptions(
        paths=tuple(paths),
        output=output,
        in_place=in_place,
        diff=diff,
        check=check,
        strict=strict,
        verify=not no_verify,
        examples=tuple(example or ()),
        training=training,
        force=force,
        show_plan=show_plan,
    )


def run(context: Context, options: PortOptions) -> CommandResult[PortData]:
    """Port the files.

    Raises:
        OperationFailedError: this version has no porter yet.
    """
    del context, options
    raise OperationFailedError(
        error_id="porter-missing",
        message="this build of fdl does not contain the porter yet",
        hint="update to a later version",
    )


def show(result: CommandResult[PortData], console: Console) -> None:
    """Print one line per file."""
    for name in result.data.files:
        console.line(name)


COMMAND = Command(schema="fdl.port/1", data=PortData, parse=parse, run=run, show=show)
