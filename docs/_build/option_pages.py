"""Page of all options of `fdl`: a table for each command, read from what parses them."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.parsing import ParameterFacts, parameter_facts
from fdl_cli.commands.registry import COMMANDS, find

INTRODUCTION: Final = """\
# Options

Every argument and option of every command, as `fdl COMMAND --help` lists them. [Commands](commands.md) tells what each
command is for.

## All commands

"""


def write_option_page(folder: Path) -> None:
    """Write the page into the folder of the reference."""
    shared = parameter_facts(_nothing)
    parts = [INTRODUCTION + _table(shared)]
    for words, command in commands():
        own = [each for each in parameter_facts(command.parse) if each not in shared]
        purpose = (inspect.getdoc(command.parse) or "").partition("\n\n")[0].replace("\n", " ")
        table = _table(own) if own else "It has the options of all commands alone.\n"
        parts.append(f"## `{words}`\n\n{purpose}\n\n{table}")
    (folder / "options.md").write_text("\n".join(parts), "utf-8")


def commands() -> Iterator[tuple[str, Command[Any, Any]]]:
    """Yield the words of every command, those in groups and modes of others included."""
    for entry in COMMANDS:
        if find(entry.today) is not None:
            continue  # another word for the same command
        loaded = load(entry)
        words = f"fdl {entry.today or entry.name}"
        if not isinstance(loaded, CommandGroup):
            yield words, loaded
            continue
        for word, command in loaded.commands.items():
            yield f"{words} {word}", command


def _nothing() -> None:
    """Take no parameters, so that only those of all commands are left."""


def _table(parameters: list[ParameterFacts] | tuple[ParameterFacts, ...]) -> str:
    rows = [f"| {_spelling(each)} | {_meaning(each)} |\n" for each in parameters]
    return "".join(["| Argument or option | Meaning |\n|---|---|\n", *rows])


def _spelling(each: ParameterFacts) -> str:
    """Return how a parameter is written.

    Example:
        >>> _spelling(ParameterFacts(True, ("--color", "-c"), "", True, ("auto", "never"), False, False))
        '`--color VALUE`, `-c VALUE`'
    """
    if not each.is_option:
        return f"`{each.names[0].upper()}{' ...' if each.repeats else ''}`"
    value = (" PATH" if each.is_path else " VALUE") if each.takes_value else ""
    return ", ".join(f"`{name}{value}`" for name in each.names)


def _meaning(each: ParameterFacts) -> str:
    """Return the help of a parameter, and the values that it may have, as a cell of a table."""
    parts = [each.summary.replace("|", "\\|")]
    if each.choices:
        parts.append(f"One of {', '.join(f'`{choice}`' for choice in each.choices)}.")
    if each.is_option and each.repeats:
        parts.append("May be given several times.")
    return " ".join(parts)
