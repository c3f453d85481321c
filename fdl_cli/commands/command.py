"""The protocol of a command: how it parses, runs and shows, and the shape of its payload."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult

Options = TypeVar("Options")
Payload = TypeVar("Payload")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[Options, Payload]):
    """One command; its module holds it under the name `COMMAND`.

    `parse` is a typer function: its parameters are the command's arguments, its docstring the
    help, and it returns the options and does nothing else. `data` is the payload's dataclass,
    from which `--json-schema` is made.
    """

    schema: str
    data: type[Payload]
    parse: Callable[..., Options]
    run: Callable[[Context, Options], CommandResult[Payload]]
    show: Callable[[CommandResult[Payload], Console], None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CommandGroup:
    """Several commands under one word; their module holds it under the name `COMMAND`."""

    summary: str
    summaries: Mapping[str, str]
    commands: Mapping[str, Command[Any, Any]]
