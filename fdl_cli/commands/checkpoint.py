"""`fdl checkpoint`: inspect, verify, compare, migrate and convert checkpoint files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.checkpoint.compare import FileDifference
from fdl_cli.checkpoint.migration import Migration
from fdl_cli.commands.checkpoint_hf import CONVERT, EXPORT, VERIFY_EXPORT
from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult

_SHOWN = 40
_LONG = (
    "fdl.topology",
    "fdl.checksums",
    "fdl.tied",
    "fdl.seal",
    "fdl.train",
    "fdl.state",
    "fdl.config",
)


# ---- show ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """The file to describe, and whether to list every tensor."""

    file: Path
    all: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLine:
    """One tensor of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShowData:
    """The description of a file, as the file gives it."""

    file: Path
    version: int
    sealed: bool
    bytes: int
    parameters: int
    tensors: tuple[TensorLine, ...]
    tied: Mapping[str, str]
    config: str | None
    metadata: Mapping[str, str]
    listed: int


def parse_show(
    file: Annotated[Path, typer.Argument(help="A .fdl or .safetensors file.", metavar="FILE")],
    *,
    every: Annotated[bool, typer.Option("--all", help="List every tensor, however many.")] = False,
) -> ShowOptions:
    """Describe a checkpoint: format, origin, tensors. Its values are not read."""
    return ShowOptions(file=file, all=every)


def run_show(context: Context, options: ShowOptions) -> CommandResult[ShowData]:
    """Read the header.

    Raises:
        NotFoundError: there is no such file.
        OperationFailedError: the file is damaged.
    """
    from fdl_cli.checkpoint.reader import open_checkpoint
    from fdl_cli.checkpoint.safetensors import table

    file = open_checkpoint(context.cwd / options.file)
    data = ShowData(
        file=options.file,
        version=file.version,
        sealed=file.sealed,
        bytes=len(file.data),
        parameters=sum(math.prod(each.shape) for each in file.tensors),
        tensors=tuple(
            TensorLine(name=each.name, dtype=each.dtype, shape=each.shape, bytes=each.size)
            for each in file.tensors
        ),
        tied=table(file, "fdl.tied"),
        config=file.metadata.get("fdl.config"),
        metadata={key: text for key, text in file.metadata.items() if key not in _LONG},
        listed=len(file.tensors) if options.all else min(len(file.tensors), _SHOWN),
    )
    return CommandResult(schema="fdl.checkpoint.show/1", data=data)


def show_show(result: CommandResult[ShowData], console: Console) -> None:
    """Print the facts, then the tensors."""
    data = result.data
    kind = {0: "safetensors", 1: "FDLC version 1", 2: "FDLC version 2"}.get(
        data.version, "fdl version 3"
    )
    console.line(
        f"{data.file}: {kind}, {'sealed' if data.sealed else 'without checksums'}", "strong"
    )
    console.line(
        f"  {data.bytes:,} bytes, {data.parameters:,} values in {len(data.tensors)} tensors"
    )
    for key, text in sorted(data.metadata.items()):
        console.line(f"  {key.removeprefix('fdl.')}: {text}")
    if data.config is not None:
        console.line("  config:")
        for line in data.config.splitlines():
            console.line(f"    {line}")
    rows = [
        [each.name, each.dtype, " x ".join(map(str, each.shape)) or "scalar", f"{each.bytes:,}"]
        for each in data.tensors[: data.listed]
    ]
    rows += [[alias, "tied", f"= {name}", "0"] for alias, name in data.tied.items()]
    if rows:
        console.table(["tensor", "dtype", "shape", "bytes"], rows)
    if data.listed < len(data.tensors):
        console.note(f"{len(data.tensors) - data.listed} more; --all lists them")


# ---- verify ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """The files to check."""

    files: tuple[Path, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile:
    """A file, whether checksums covered it, and its problems."""

    file: Path
    sealed: bool
    problems: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyData:
    """The outcome for every file."""

    files: tuple[VerifiedFile, ...]


def parse_verify(
    files: Annotated[
        list[Path], typer.Argument(help=".fdl or .safetensors files.", metavar="FILE...")
    ],
) -> VerifyOptions:
    """Read every byte of checkpoints and compare it with their checksums; exit 1 if one is damaged."""
    return VerifyOptions(files=tuple(files))


def run_verify(context: Context, options: VerifyOptions) -> CommandResult[VerifyData]:
    """Check all files; a damaged one does not stop the others.

    Raises:
        NotFoundError: there is no such file.
    """
    from fdl_cli.checkpoint.reader import open_checkpoint, problems
    from fdl_cli.errors import OperationFailedError

    found = []
    for path in options.files:
        try:
            file = open_checkpoint(context.cwd / path)
            found.append(VerifiedFile(file=path, sealed=file.sealed, problems=problems(file)))
        except OperationFailedError as damage:
            found.append(VerifiedFile(file=path, sealed=False, problems=(damage.message,)))
    ok = not any(each.problems for each in found)
    return CommandResult(
        schema="fdl.checkpoint.verify/1",
        ok=ok,
        data=VerifyData(files=tuple(found)),
        exit_code=0 if ok else 1,
    )


def show_verify(result: CommandResult[VerifyData], console: Console) -> None:
    """Print a line for each file, and its damage."""
    for each in result.data.files:
        if each.problems:
            console.line(f"{each.file}: {console.styled('damaged', 'error')}")
            for problem in each.problems:
                console.line(f"  {problem}")
        elif each.sealed:
            console.line(f"{each.file}: {console.styled('whole', 'success')}")
        else:
            console.line(f"{each.file}: readable, but it carries no checksums", "warning")


# ---- diff ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """The two files to compare."""

    first: Path
    second: Path


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiffData:
    """The difference, and whether there is none."""

    equal: bool
    difference: FileDifference


def parse_diff(
    first: Annotated[Path, typer.Argument(help="A checkpoint.", metavar="FIRST")],
    second: Annotated[Path, typer.Argument(help="Another one.", metavar="SECOND")],
) -> DiffOptions:
    """Compare two checkpoints: names, shapes, values, architecture; exit 1 if they differ."""
    return DiffOptions(first=first, second=second)


def run_diff(context: Context, options: DiffOptions) -> CommandResult[DiffData]:
    """Compare the files.

    Raises:
        NotFoundError: there is no such file.
        OperationFailedError: a file is damaged.
    """
    from fdl_cli.checkpoint.compare import compare
    from fdl_cli.checkpoint.reader import open_checkpoint

    first, second = (
        open_checkpoint(context.cwd / each) for each in (options.first, options.second)
    )
    difference = compare(first, second)
    return CommandResult(
        schema="fdl.checkpoint.diff/1",
        ok=difference.equal,
        data=DiffData(equal=difference.equal, difference=difference),
        exit_code=0 if difference.equal else 1,
    )


def show_diff(result: CommandResult[DiffData], console: Console) -> None:
    """Print one line per difference."""
    if result.data.equal:
        console.line("no difference: the same tensors with the same values", "success")
        return
    found = result.data.difference
    lines = [f"- {name}" for name in found.only_first]
    lines += [f"+ {name}" for name in found.only_second]
    lines += [f"~ {each.name}: {each.first} -> {each.second}" for each in found.changed_form]
    lines += [f"~ {name}: other values" for name in found.changed_values]
    lines += list(found.architecture)
    for line in lines:
        console.line(line)


# ---- migrate ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """The files to convert, the target, and the source of the names."""

    source: Path
    target: Path
    like: Path | None
    rename: tuple[str, ...]
    in_order: bool
    force: bool
    python: Path | None


def parse_migrate(
    source: Annotated[Path, typer.Argument(help="The old file.", metavar="SOURCE")],
    target: Annotated[Path, typer.Argument(help="The new file.", metavar="TARGET")],
    *,
    like: Annotated[
        Path | None,
        typer.Option("--like", help="A checkpoint of the new model: its names are the goal."),
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", help="A name that changes.", metavar="OLD=NEW")
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Match equal shapes in the order of both files.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite TARGET.")] = False,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python", help="The Python with torch; else the project's, else fdl's own."
        ),
    ] = None,
) -> MigrateOptions:
    """Rewrite a checkpoint in today's format, with the names of another model if requested.

    Without --like only the names given change. An ambiguous match is an error.
    """
    return MigrateOptions(
        source=source,
        target=target,
        like=like,
        rename=tuple(rename or ()),
        in_order=in_order,
        force=force,
        python=python,
    )


def run_migrate(context: Context, options: MigrateOptions) -> CommandResult[Migration]:
    """Migrate in a child process that has torch.

    Raises:
        UsageError: a --rename is not OLD=NEW, or both files are the same.
        ConflictError: the target exists, or the match is ambiguous.
        EnvironmentLackingError: there is no torch.
    """
    from fdl_cli.checkpoint.migration import MigrationRequest, migrate
    from fdl_cli.system.user_python import user_python

    request = MigrationRequest(
        source=context.cwd / options.source,
        target=context.cwd / options.target,
        like=None if options.like is None else context.cwd / options.like,
        rename=options.rename,
        in_order=options.in_order,
        force=options.force,
        python=user_python(context, options.python),
    )
    return CommandResult(schema="fdl.checkpoint.migrate/1", data=migrate(request))


def show_migrate(result: CommandResult[Migration], console: Console) -> None:
    """Print the outcome of the tensors."""
    data = result.data
    console.line(
        f"{data.target}: {len(data.unchanged)} unchanged, {len(data.remapped)} renamed", "success"
    )
    for each in data.remapped:
        console.line(f"  {each.old} -> {each.new}")
    for word, names in (("dropped", data.dropped), ("missing", data.missing)):
        if names:
            console.line(f"{len(names)} {word}:", "warning")
            for name in names:
                console.line(f"  {name}")


COMMAND = CommandGroup(
    summary="Look into checkpoints, check them, compare them, give them new names.",
    summaries={
        "show": "what is in a file",
        "verify": "read every byte and compare checksums",
        "diff": "how two files differ",
        "migrate": "new format, new names",
        "convert": "from a folder of transformers",
        "export": "to a folder of transformers",
        "verify-export": "what folder and file compute",
    },
    commands={
        "show": Command(
            schema="fdl.checkpoint.show/1",
            data=ShowData,
            parse=parse_show,
            run=run_show,
            show=show_show,
        ),
        "verify": Command(
            schema="fdl.checkpoint.verify/1",
            data=VerifyData,
            parse=parse_verify,
            run=run_verify,
            show=show_verify,
        ),
        "diff": Command(
            schema="fdl.checkpoint.diff/1",
            data=DiffData,
            parse=parse_diff,
            run=run_diff,
            show=show_diff,
        ),
        "migrate": Command(
            schema="fdl.checkpoint.migrate/1",
            data=Migration,
            parse=parse_migrate,
            run=run_migrate,
            show=show_migrate,
        ),
        "convert": CONVERT,
        "export": EXPORT,
        "verify-export": VERIFY_EXPORT,
    },
)
