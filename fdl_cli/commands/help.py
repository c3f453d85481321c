"""`fdl help`: the overview, the help of a command, or a topic such as exit-codes."""

import difflib
from dataclasses import dataclass
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.overview import overview
from fdl_cli.commands.registry import CURRENT, LISTED, find
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import EXIT_CODES, ExitCode, NotFoundError
from fdl_cli.result import CommandResult

TOPICS = ("exit-codes",)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HelpOptions:
    """The topic to show; nothing means the overview."""

    topic: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSummary:
    """One command in one line."""

    name: str
    summary: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HelpData:
    """A topic and its text; the lists are complete whatever the topic."""

    topic: str | None
    text: str
    topics: tuple[str, ...]
    commands: tuple[CommandSummary, ...]
    exit_codes: tuple[ExitCode, ...]


def parse(
    topic: Annotated[str | None, typer.Argument(help="A topic or a command.")] = None,
) -> HelpOptions:
    """Explain a topic (exit-codes) or a command; without one, show the overview."""
    return HelpOptions(topic=topic)


def run(context: Context, options: HelpOptions) -> CommandResult[HelpData]:
    """Collect the text of a topic.

    Raises:
        NotFoundError: there is no such topic.
    """
    data = HelpData(
        topic=options.topic,
        text=_text(options.topic, context.console.width),
        topics=TOPICS,
        commands=tuple(CommandSummary(name=item.name, summary=item.summary) for item in LISTED),
        exit_codes=EXIT_CODES,
    )
    return CommandResult(schema=COMMAND.schema, data=data)


def show(result: CommandResult[HelpData], console: Console) -> None:
    """Print the text."""
    console.line(result.data.text)


def _text(topic: str | None, width: int) -> str:
    if topic is None:
        return overview(width)
    if topic == "exit-codes":
        return _exit_codes()
    entry = find(topic)
    if entry is not None:
        # Imported here: execution loads commands, and this module is one of them.
        from fdl_cli.commands.execution import command_help

        return command_help(entry)
    names = [*TOPICS, *(item.name for item in CURRENT)]
    near = difflib.get_close_matches(topic, names, n=1)
    raise NotFoundError(
        error_id="topic-unknown",
        message=f"there is no help about `{topic}`",
        hint=f"did you mean `fdl help {near[0]}`?" if near else "try `fdl help exit-codes`",
    )


def _exit_codes() -> str:
    width = max(len(item.name) for item in EXIT_CODES)
    lines = [f"  {item.code:>5}  {item.name:{width}}  {item.meaning}" for item in EXIT_CODES]
    return "\n".join(
        (
            "Exit codes of fdl:",
            "",
            *lines,
            "",
            "Only fdl itself writes a line `error[id]:` to stderr, so a code",
            "that came from a program run by fdl can be told apart.",
        )
    )


COMMAND = Command(schema="fdl.help/1", data=HelpData, parse=parse, run=run, show=show)
