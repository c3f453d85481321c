"""`fdl api-ref`: the reference of the runtime, by name, by words, or by PyTorch name."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.apiref.difference import Change, change_lines, compare
from fdl_cli.apiref.llms import llms_full_text, llms_text
from fdl_cli.apiref.lookup import find_entry, search
from fdl_cli.apiref.model import ApiIndex, Entry
from fdl_cli.apiref.render import (
    LOOKUP_CHARS,
    SUMMARY_CHARS,
    cut,
    entry_text,
    markdown,
    one_line,
    summary_text,
)
from fdl_cli.apiref.storage import load_index, read_index_file
from fdl_cli.apiref.torch_map import TorchEntry, entry_lines, torch_entry
from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import NotFoundError, UsageError
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRefOptions:
    """The names to look up and how to print them."""

    name: str | None
    search: str | None
    torch: str | None
    diff: Path | None
    markdown: bool
    llms: bool
    llms_full: bool
    max_chars: int | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRefData:
    """The requested entries; `total` counts what exists, members included."""

    version: str
    total: int
    entries: tuple[Entry, ...]
    torch: TorchEntry | None
    changes: tuple[Change, ...]
    text: str


def parse(
    name: Annotated[
        str | None, typer.Argument(help="A public name, such as FlowBuilder or Flow.through.")
    ] = None,
    *,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", help="Find entries with these words."),
    ] = None,
    torch: Annotated[
        str | None, typer.Option("--torch", metavar="NAME", help="What becomes of a PyTorch name.")
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(
            "--diff",
            metavar="OLD",
            help="Compare with an older version: a file of --json, a wheel or a checkout.",
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    llms: Annotated[bool, typer.Option("--llms", help="Print llms.txt.")] = False,
    llms_full: Annotated[bool, typer.Option("--llms-full", help="Print llms-full.txt.")] = False,
    max_chars: Annotated[
        int | None,
        typer.Option("--max-chars", min=0, help="Print at most this many characters; 0: all."),
    ] = None,
) -> ApiRefOptions:
    """Print the reference of flodl: all names by purpose, or one of them in full.

    It is read from the source, so torch is not needed. Examples in it are run by tests.
    """
    return ApiRefOptions(
        name=name,
        search=search,
        torch=torch,
        diff=diff,
        markdown=markdown,
        llms=llms,
        llms_full=llms_full,
        max_chars=max_chars,
    )


def run(context: Context, options: ApiRefOptions) -> CommandResult[ApiRefData]:
    """Look it up.

    Raises:
        UsageError: two questions at once.
        NotFoundError: the name is not known.
        ConfigError: the older version cannot be read.
    """
    _check(options)
    if options.torch is not None:
        return _result(_torch(options.torch, options.max_chars))
    index = load_index(context.directories.cache)
    data = _answer(index, options, context.cwd)
    breaking = any(change.breaking for change in data.changes)
    return _result(data, code=1 if breaking else 0)


def show(result: CommandResult[ApiRefData], console: Console) -> None:
    """Print the text."""
    console.line(result.data.text)


def _check(options: ApiRefOptions) -> None:
    asked = [
        word
        for word, value in (
            ("NAME", options.name),
            ("--search", options.search),
            ("--torch", options.torch),
            ("--diff", options.diff),
            ("--llms", options.llms or None),
            ("--llms-full", options.llms_full or None),
        )
        if value is not None
    ]
    if len(asked) > 1:
        raise UsageError(
            error_id="api-ref-questions",
            message=f"{asked[0]} and {asked[1]} are two questions",
            hint="ask one at a time: `fdl api-ref FlowBuilder`",
        )


def _answer(index: ApiIndex, options: ApiRefOptions, cwd: Path) -> ApiRefData:
    most = options.max_chars
    if options.diff is not None:
        changes = compare(read_index_file(cwd / options.diff), index)
        text = "\n".join(change_lines(change) for change in changes) or "nothing changed"
        return replace(_data(index, (), cut(text, most or 0)), changes=changes)
    if options.llms or options.llms_full:
        text = llms_text(index) if options.llms else llms_full_text(index)
        return _data(index, index.entries, cut(text, most or 0))
    if options.search is not None:
        return _search(index, options.search, options)
    if options.name is not None:
        entry = find_entry(index, options.name)
        limit = LOOKUP_CHARS if most is None else most
        text = entry_text(index, entry, limit)
        if options.markdown:
            text = markdown(index, (entry, *index.members(entry.name)), limit)
        return _data(index, (entry, *index.members(entry.name)), text)
    if options.markdown:
        return _data(index, index.entries, markdown(index, index.entries, most or 0))
    text = summary_text(index, SUMMARY_CHARS if most is None else most)
    return _data(index, index.entries, text)


def _search(index: ApiIndex, words: str, options: ApiRefOptions) -> ApiRefData:
    entries = tuple(match.entry for match in search(index, words))
    if not entries:
        raise NotFoundError(
            error_id="api-search-empty",
            message=f"nothing in the reference holds `{words}`",
            hint="`fdl api-ref` lists all names by purpose",
        )
    limit = LOOKUP_CHARS if options.max_chars is None else options.max_chars
    if options.markdown:
        return _data(index, entries, markdown(index, entries, limit))
    lines = [f"{len(entries)} of {len(index.entries)} entries:"]
    return _data(
        index, entries, cut("\n".join([*lines, *(one_line(e, 96) for e in entries)]), limit)
    )


def _torch(name: str, max_chars: int | None) -> ApiRefData:
    from fdl_cli import __version__

    entry = torch_entry(name)
    text = cut(entry_lines(entry), LOOKUP_CHARS if max_chars is None else max_chars)
    return ApiRefData(version=__version__, total=0, entries=(), torch=entry, changes=(), text=text)


def _data(index: ApiIndex, entries: tuple[Entry, ...], text: str) -> ApiRefData:
    return ApiRefData(
        version=index.version,
        total=len(index.entries),
        entries=entries,
        torch=None,
        changes=(),
        text=text,
    )


def _result(data: ApiRefData, code: int = 0) -> CommandResult[ApiRefData]:
    return CommandResult(schema=COMMAND.schema, data=data, ok=code == 0, exit_code=code)


COMMAND = Command(schema="fdl.api-ref/1", data=ApiRefData, parse=parse, run=run, show=show)
