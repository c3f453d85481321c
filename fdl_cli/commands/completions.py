"""`fdl install --print-completion`: print the completion script of a shell."""

from dataclasses import dataclass
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.completion.scripts import SCRIPTS, Shell
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsOptions:
    """The shell."""

    shell: Shell


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsData:
    """The script of one shell."""

    shell: Shell
    script: str


def parse(
    shell: Annotated[
        Shell, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")
    ],
) -> CompletionsOptions:
    """Print the completion script of a shell; `fdl install --completion` puts it in its place.

    The script calls fdl at TAB only, so a new shell starts no slower.
    """
    return CompletionsOptions(shell=shell)


def run(context: Context, options: CompletionsOptions) -> CommandResult[CompletionsData]:
    """Return the script."""
    del context
    data = CompletionsData(shell=options.shell, script=SCRIPTS[options.shell])
    return CommandResult(schema=COMMAND.schema, data=data)


def show(result: CommandResult[CompletionsData], console: Console) -> None:
    """Print it exactly."""
    console.write(result.data.script)


COMMAND = Command(
    schema="fdl.completions/1", data=CompletionsData, parse=parse, run=run, show=show
)
