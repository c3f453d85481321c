"""`fdl install --completion`: put the completion script where the shell finds it, or take it away."""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Literal, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.completion.scripts import SCRIPTS, SHELLS, Shell, place_for
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import ConflictError, OperationFailedError, UsageError
from fdl_cli.result import CommandResult

Action = Literal["create", "update", "same", "remove", "absent"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AutocompleteOptions:
    """The shell, and the action."""

    shell: Shell | None
    remove: bool
    dry_run: bool
    force: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AutocompleteData:
    """The file of the script, its action, and the steps left for the person."""

    shell: Shell
    path: Path
    action: Action
    dry_run: bool
    todo: str


def parse(
    shell: Annotated[
        Shell | None,
        typer.Argument(metavar="[SHELL]", help="bash, zsh, fish or powershell; else $SHELL."),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the script away.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be written; write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a script that is not of fdl.")
    ] = False,
) -> AutocompleteOptions:
    """Turn on completion in your shell. Files such as .bashrc are never edited."""
    return AutocompleteOptions(shell=shell, remove=remove, dry_run=dry_run, force=force)


def run(context: Context, options: AutocompleteOptions) -> CommandResult[AutocompleteData]:
    """Write or remove the script.

    Raises:
        UsageError: the shell is not known.
        ConflictError: a file that is not of fdl is in the way.
        OperationFailedError: the file cannot be written.
    """
    shell = options.shell or _shell_of(context)
    home = Path(context.environ.get("HOME") or context.environ.get("USERPROFILE") or "")
    if not home.is_absolute():
        raise UsageError(
            error_id="no-home",
            message="there is no home folder: neither HOME nor USERPROFILE is set",
            hint=f"put the script in its place yourself: `fdl install --print-completion {shell}`",
        )
    place = place_for(shell, context.environ, home)
    action = _action(place.path, SCRIPTS[shell], options)
    if not options.dry_run:
        _carry_out(place.path, SCRIPTS[shell], action)
    data = AutocompleteData(
        shell=shell,
        path=place.path,
        action=action,
        dry_run=options.dry_run,
        todo="" if options.remove else place.todo,
    )
    return CommandResult(schema=COMMAND.schema, data=data)


def show(result: CommandResult[AutocompleteData], console: Console) -> None:
    """Print the result and the steps that are left to do."""
    data = result.data
    console.note(f"{data.action:>8}  {data.path}")
    if data.dry_run:
        console.note("nothing was written: this was a dry run")
    if data.todo:
        console.line(data.todo)
    elif data.action in ("create", "update"):
        console.note(f"open a new {data.shell} to use it")


def _shell_of(context: Context) -> Shell:
    name = PurePath(context.environ.get("SHELL", "")).name
    for shell in SHELLS:
        if shell == name:
            return shell
    raise UsageError(
        error_id="shell-unknown",
        message=f"the shell is not known: SHELL is `{context.environ.get('SHELL', '')}`",
        hint="name it: `fdl install --completion bash`",
    )


def _action(path: Path, script: str, options: AutocompleteOptions) -> Action:
    try:
        current = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        current = None
    if current is None:
        return "absent" if options.remove else "create"
    if "fdl __complete" not in current and not options.force:
        raise ConflictError(
            error_id="completion-foreign",
            message=f"`{path}` exists and is not a script of fdl",
            hint="move it away, or pass --force",
        )
    if options.remove:
        return "remove"
    return "same" if current == script else "update"


def _carry_out(path: Path, script: str, action: Action) -> None:
    from fdl_cli.system.atomic import write_whole

    try:
        if action in ("create", "update"):
            write_whole(path, script.encode())
        elif action == "remove":
            path.unlink(missing_ok=True)
    except OSError as problem:
        raise OperationFailedError(
            error_id="completion-write",
            message=f"cannot write `{path}`: {problem.strerror}",
            hint="print the script instead: `fdl install --print-completion bash`",
            file=str(path),
        ) from problem


COMMAND = Command(
    schema="fdl.autocomplete/1", data=AutocompleteData, parse=parse, run=run, show=show
)
