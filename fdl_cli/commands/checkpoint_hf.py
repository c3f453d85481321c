"""`fdl checkpoint convert`, `export` and `verify-export`: checkpoints from and for transformers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, final

import typer

from fdl_cli.checkpoint.hf import Exchange, ExportCheck, Keys
from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult

_Python = Annotated[
    Path | None,
    typer.Option(
        "--python",
        help="The Python with torch and transformers; else the project's, else fdl's own.",
    ),
]
_Unexpected = Annotated[
    bool,
    typer.Option("--allow-unexpected", help="Drop weights that the class does not have."),
]


# ---- convert ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """The folder to read and the file to write."""

    folder: Path
    output: Path
    allow_unexpected: bool
    force: bool
    python: Path | None


def parse_convert(
    folder: Annotated[
        Path, typer.Argument(help="It has config.json and model.safetensors.", metavar="FOLDER")
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The checkpoint to write.", metavar="FILE")
    ],
    allow_unexpected: _Unexpected = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    python: _Python = None,
) -> ConvertOptions:
    """Turn a folder of transformers into a checkpoint, under the names of its class.

    Names that the class lacks, or that the folder lacks, are errors. Former names change and are listed.
    """
    return ConvertOptions(
        folder=folder,
        output=output,
        allow_unexpected=allow_unexpected,
        force=force,
        python=python,
    )


def run_convert(context: Context, options: ConvertOptions) -> CommandResult[Exchange]:
    """Convert in a child process that has torch and transformers.

    Raises:
        NotFoundError: the folder lacks a file.
        ConflictError: the target exists.
        EnvironmentLackingError: there is no torch, or no transformers.
        OperationFailedError: a file is damaged, or the weights do not fit.
    """
    from fdl_cli.checkpoint.hf import convert
    from fdl_cli.system.user_python import user_python

    done = convert(
        context.cwd / options.folder,
        context.cwd / options.output,
        user_python(context, options.python),
        allow_unexpected=options.allow_unexpected,
        force=options.force,
    )
    return CommandResult(schema="fdl.checkpoint.convert/1", data=done)


def show_exchange(result: CommandResult[Exchange], console: Console) -> None:
    """Print the target, and the names that changed."""
    data = result.data
    console.line(f"{data.target}: {data.architecture}, {data.tensors} tensors", "success")
    for each in data.renamed:
        console.line(f"  {each.old} -> {each.new}")
    if data.copied:
        console.line(f"  copied: {', '.join(data.copied)}")
    if data.dropped:
        console.line(f"{len(data.dropped)} dropped:", "warning")
        for name in data.dropped:
            console.line(f"  {name}")


# ---- export ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The checkpoint to read, its configuration, and the folder to write."""

    file: Path
    config: Path | None
    output: Path
    allow_unexpected: bool
    force: bool
    python: Path | None


def parse_export(
    file: Annotated[Path, typer.Argument(help="A checkpoint.", metavar="FILE")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write.", metavar="FOLDER")
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="config.json or its folder, with a tokenizer; else the one that FILE holds.",
        ),
    ] = None,
    allow_unexpected: _Unexpected = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files of FOLDER.")] = False,
    python: _Python = None,
) -> ExportOptions:
    """Turn a checkpoint into a folder that `AutoModel.from_pretrained(FOLDER)` of transformers loads."""
    return ExportOptions(
        file=file,
        config=config,
        output=output,
        allow_unexpected=allow_unexpected,
        force=force,
        python=python,
    )


def run_export(context: Context, options: ExportOptions) -> CommandResult[Exchange]:
    """Export in a child process that has torch and transformers.

    Raises:
        NotFoundError: there is no such file, or no configuration.
        ConflictError: the target exists.
        EnvironmentLackingError: there is no torch, or no transformers.
        OperationFailedError: a file is damaged, or the weights do not fit.
    """
    from fdl_cli.checkpoint.hf import export
    from fdl_cli.system.user_python import user_python

    done = export(
        context.cwd / options.file,
        None if options.config is None else context.cwd / options.config,
        context.cwd / options.output,
        user_python(context, options.python),
        allow_unexpected=options.allow_unexpected,
        force=options.force,
    )
    return CommandResult(schema="fdl.checkpoint.export/1", data=done)


# ---- verify-export ---------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyExportOptions:
    """The checkpoint and the folder to compare."""

    file: Path
    folder: Path
    python: Path | None


def parse_verify_export(
    file: Annotated[Path, typer.Argument(help="A checkpoint.", metavar="FILE")],
    folder: Annotated[Path, typer.Argument(help="A folder of transformers.", metavar="FOLDER")],
    *,
    python: _Python = None,
) -> VerifyExportOptions:
    """Compute with a folder and with a checkpoint, and compare every output; exit 1 if they differ."""
    return VerifyExportOptions(file=file, folder=folder, python=python)


def run_verify_export(
    context: Context, options: VerifyExportOptions
) -> CommandResult[ExportCheck]:
    """Compare in a child process that has torch and transformers.

    Raises:
        NotFoundError: there is no such file, or the folder lacks one.
        EnvironmentLackingError: there is no torch, or no transformers.
        OperationFailedError: a file is damaged, or the class cannot be built.
    """
    from fdl_cli.checkpoint.hf import verify_export
    from fdl_cli.system.user_python import user_python

    found = verify_export(
        context.cwd / options.file,
        context.cwd / options.folder,
        user_python(context, options.python),
    )
    return CommandResult(
        schema="fdl.checkpoint.verify-export/1",
        ok=found.equal,
        data=found,
        exit_code=0 if found.equal else 1,
    )


def show_verify_export(result: CommandResult[ExportCheck], console: Console) -> None:
    """Print the largest difference, and the names that do not fit."""
    data = result.data
    for place, keys in (("folder", data.folder), ("checkpoint", data.checkpoint)):
        _show_keys(place, keys, console)
    head = f"{data.architecture} by {data.loaded_by}"
    if data.difference is None:
        console.line(f"{head}: nothing to compare", "error")
        return
    text = f"{head}: {data.outputs} outputs, largest difference {data.difference:g}"
    console.line(text, "success" if data.equal else "error")


def _show_keys(place: str, keys: Keys, console: Console) -> None:
    lists = (
        ("missing", keys.missing),
        ("unexpected", keys.unexpected),
        ("other shape", keys.other_shape),
    )
    for word, names in lists:
        for name in names:
            console.line(f"{word} in the {place}: {name}", "warning")


CONVERT: Final = Command(
    schema="fdl.checkpoint.convert/1",
    data=Exchange,
    parse=parse_convert,
    run=run_convert,
    show=show_exchange,
)
EXPORT: Final = Command(
    schema="fdl.checkpoint.export/1",
    data=Exchange,
    parse=parse_export,
    run=run_export,
    show=show_exchange,
)
VERIFY_EXPORT: Final = Command(
    schema="fdl.checkpoint.verify-export/1",
    data=ExportCheck,
    parse=parse_verify_export,
    run=run_verify_export,
    show=show_verify_export,
)
