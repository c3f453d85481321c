"""Execution of a command: find its module, parse its arguments, run it, show its result."""

import difflib
import importlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple, assert_never, final

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.global_options import GlobalOptions
from fdl_cli.commands.parsing import SchemaRequest, help_text, parse
from fdl_cli.commands.registry import CommandEntry, modes_of, take_mode
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import UsageError
from fdl_cli.result import CommandResult, envelope


@final
class Chosen(NamedTuple):
    """A command found by its words, the arguments left for it, and the end of its help page."""

    prog: str
    command: Command[Any, Any]
    arguments: tuple[str, ...]
    epilog: str


@final
class Execution(NamedTuple):
    """A command that is ready to run."""

    command: Command[Any, Any]
    options: Any
    common: GlobalOptions


def load(entry: CommandEntry) -> Command[Any, Any] | CommandGroup:
    """Import the module of a command; nothing else of `fdl` is imported with it."""
    found = importlib.import_module(entry.module).COMMAND
    assert isinstance(found, Command | CommandGroup), entry.module
    return found


def choose(entry: CommandEntry, arguments: tuple[str, ...], console: Console) -> Chosen | None:
    """Go from a word to the command it means; nothing when the help of a group was shown."""
    name, epilog = entry.name, epilog_of(entry)
    mode, arguments = take_mode(name, arguments)
    if mode is not None:
        entry, name, epilog = mode, mode.today, ""
    loaded = load(entry)
    match loaded:
        case Command():
            return Chosen(f"fdl {name}", loaded, arguments, epilog)
        case CommandGroup():
            only = list(loaded.commands) if mode is not None and len(loaded.commands) == 1 else []
            if only:
                return Chosen(f"fdl {name}", loaded.commands[only[0]], arguments, epilog)
            return _choose_in_group(name, loaded, arguments, console, epilog)
        case _:
            assert_never(loaded)


def prepare(chosen: Chosen, console: Console) -> Execution | None:
    """Parse the arguments; return None for a request of help or of the JSON Schema."""
    try:
        parsed = parse(chosen.prog, chosen.command.parse, chosen.arguments, chosen.epilog)
    except SchemaRequest:
        from fdl_cli.json_schema import envelope_schema

        schema = envelope_schema(chosen.command.schema, chosen.command.data)
        console.line(json.dumps(schema, indent=2))
        return None
    if parsed is None:
        return None
    return Execution(chosen.command, parsed.options, parsed.common)


def perform(execution: Execution, context: Context) -> int:
    """Run a command and show its result; return the exit code."""
    result: CommandResult[Any] = execution.command.run(context, execution.options)
    console = context.console
    if context.json:
        console.line(envelope(result))
        return result.exit_code
    execution.command.show(result, console)
    for notice in result.warnings:
        console.warning(notice)
    return result.exit_code


def epilog_of(entry: CommandEntry) -> str:
    """Return the end of a command's help page: its modes, or the words of today.

    Example:
        >>> from fdl_cli.commands.registry import find
        >>> print(epilog_of(find("runs")))
        Also, with a page of its own:
          fdl runs --again  run a recorded run again
        >>> print(epilog_of(find("rerun")))
        The same as `fdl runs --again`.
    """
    if entry.today:
        return f"The same as `fdl {entry.today}`."
    modes = modes_of(entry.name)
    if not modes:
        return ""
    width = max(len(mode.today) for mode in modes)
    rows = [f"  fdl {mode.today:{width}}  {mode.summary}" for mode in modes]
    return "\n".join(("Also, with a page of its own:", *rows))


def group_help(name: str, group: CommandGroup, epilog: str = "") -> str:
    """Return the text of `fdl <group> --help`."""
    width = max(len(word) for word in group.commands)
    lines = [f"Usage: fdl {name} COMMAND [OPTIONS]", "", f"  {group.summary}", "", "Commands:"]
    lines += [f"  {word:{width}}  {group.summaries[word]}" for word in group.commands]
    lines += ["", f"`fdl {name} COMMAND --help` explains one of them."]
    lines += [epilog] if epilog else []
    return "\n".join(lines)


def command_help(entry: CommandEntry) -> str:
    """Return the text of `fdl <command> --help`, for a command or a group."""
    loaded = load(entry)
    if isinstance(loaded, CommandGroup):
        return group_help(entry.name, loaded, epilog_of(entry))
    function: Callable[..., object] = loaded.parse
    return help_text(f"fdl {entry.name}", function, epilog_of(entry))


def help_of(words: tuple[str, ...]) -> str | None:
    """Return the help page of a command, or of one in a group; nothing if there is none."""
    from fdl_cli.commands.registry import find

    entry = find(words[0])
    if entry is None:
        return None
    if len(words) == 1:
        return command_help(entry)
    loaded = load(entry)
    if isinstance(loaded, CommandGroup) and words[1] in loaded.commands:
        return help_text(f"fdl {' '.join(words)}", loaded.commands[words[1]].parse)
    return None


def _choose_in_group(
    name: str, group: CommandGroup, arguments: tuple[str, ...], console: Console, epilog: str
) -> Chosen | None:
    if not arguments or arguments[0] in ("-h", "--help"):
        console.line(group_help(name, group, epilog))
        return None
    word, rest = arguments[0], arguments[1:]
    if word not in group.commands:
        near = difflib.get_close_matches(word, list(group.commands), n=1)
        raise UsageError(
            error_id="command-unknown",
            message=f"`fdl {name}` has no command `{word}`",
            hint=f"did you mean `fdl {name} {near[0]}`?" if near else f"see `fdl {name} --help`",
        )
    return Chosen(f"fdl {name} {word}", group.commands[word], rest, "")
