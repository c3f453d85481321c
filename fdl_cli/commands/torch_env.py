"""`fdl libtorch`: torch builds side by side, one active per environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.torch_env_build import BUILD
from fdl_cli.commands.torch_env_download import DOWNLOAD
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult
from fdl_cli.torch_setup.libtorch_data import BuildRow, SwitchData, VariantRow

GB = 1e9
EnvOption = Annotated[
    Path | None, typer.Option("--env", help="The environment; else the project's .venv.")
]
NameArgument = Annotated[
    str, typer.Argument(help="The build's name, or how it begins.", metavar="NAME")
]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EnvOptions:
    """The environment."""

    env: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NameOptions:
    """The build and the environment."""

    name: str
    env: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InfoOptions:
    """A kept build; None selects all that exist."""

    name: str | None
    env: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ListData:
    """The kept builds."""

    builds: tuple[BuildRow, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InfoData:
    """The contents of one build, or the newest torch of every variant for this machine."""

    name: str | None
    folder: str | None
    packages: tuple[str, ...]
    variants: tuple[VariantRow, ...]


def parse_list(*, env: EnvOption = None) -> EnvOptions:
    """List the torch builds that are kept here, and which one is active."""
    return EnvOptions(env=env)


def parse_info(
    *,
    name: Annotated[
        str | None, typer.Argument(help="A kept build; else all that exists.", metavar="NAME")
    ] = None,
    env: EnvOption = None,
) -> InfoOptions:
    """Show what is in a build, or which variants exist and work on this machine."""
    return InfoOptions(name=name, env=env)


def parse_activate(*, name: NameArgument, env: EnvOption = None) -> NameOptions:
    """Switch the environment to a kept build; nothing is downloaded or reinstalled."""
    return NameOptions(name=name, env=env)


def parse_remove(*, name: NameArgument, env: EnvOption = None) -> NameOptions:
    """Delete a kept build from the disk."""
    return NameOptions(name=name, env=env)


def parse_verify(*, env: EnvOption = None) -> EnvOptions:
    """Run the kernels on every device again and compare with what was set up."""
    return EnvOptions(env=env)


def run_list(context: Context, options: EnvOptions) -> CommandResult[ListData]:
    """Return the kept builds."""
    from fdl_cli.torch_setup.libtorch import list_rows

    return CommandResult(
        schema="fdl.libtorch.list/1", data=ListData(builds=list_rows(context, options.env))
    )


def run_info(context: Context, options: InfoOptions) -> CommandResult[InfoData]:
    """Return one build's contents, or the builds for this machine."""
    from fdl_cli.torch_setup.libtorch import describe, variant_rows

    if options.name is None:
        data = InfoData(
            name=None, folder=None, packages=(), variants=variant_rows(context, options.env)
        )
    else:
        build = describe(context, options.name)
        packages = tuple(f"{dist.name} {dist.version}" for dist in build.dists)
        data = InfoData(name=build.name, folder=build.folder, packages=packages, variants=())
    return CommandResult(schema="fdl.libtorch.info/1", data=data)


def run_activate(context: Context, options: NameOptions) -> CommandResult[SwitchData]:
    """Switch the environment."""
    from fdl_cli.torch_setup.libtorch import activate

    data = activate(context, options.name, options.env)
    return CommandResult(schema="fdl.libtorch.activate/1", data=data, warnings=data.notices)


def run_remove(context: Context, options: NameOptions) -> CommandResult[BuildRow]:
    """Delete a build."""
    from fdl_cli.torch_setup.libtorch import remove

    return CommandResult(
        schema="fdl.libtorch.remove/1", data=remove(context, options.name, options.env)
    )


def run_verify(context: Context, options: EnvOptions) -> CommandResult[SwitchData]:
    """Prove the installed torch again."""
    from fdl_cli.torch_setup.libtorch import verify

    return CommandResult(schema="fdl.libtorch.verify/1", data=verify(context, options.env))


def show_list(result: CommandResult[ListData], console: Console) -> None:
    """Print one line per build."""
    rows = result.data.builds
    if not rows:
        console.line("no torch build is kept here; `fdl setup` makes one")
        return
    console.table(
        ("", "build", "size", "proved", "folder"),
        [
            (
                "*" if row.active else "",
                row.name,
                f"{row.bytes / GB:.2f} GB",
                row.proved,
                row.folder,
            )
            for row in rows
        ],
    )


def show_info(result: CommandResult[InfoData], console: Console) -> None:
    """Print the packages of a build, or the table of variants."""
    data = result.data
    if data.name is not None:
        console.line(f"{data.name}  {data.folder}", "strong")
        for package in data.packages:
            console.line(f"  {package}")
        return
    console.table(
        ("", "torch", "variant", "works here", "machine code"),
        [
            (
                "*" if row.chosen else "", row.torch, row.variant,
                "yes" if row.works else row.why, " ".join(row.sm) or "-",
            )
            for row in data.variants
        ],
    )  # fmt: skip


def show_switch(result: CommandResult[SwitchData], console: Console) -> None:
    """Print the active build, and the devices on which it was proved."""
    data = result.data
    if data.proof is None:
        word = "is active now" if data.changed else "was active already"
        console.line(f"{data.name} {word} in {data.environment}", "success")
        return
    console.line(f"{data.name} in {data.environment}", "strong")
    for device in data.proof.devices:
        console.line(f"  {device.device} ({device.name}): elementwise, matmul, backward ok")


def show_remove(result: CommandResult[BuildRow], console: Console) -> None:
    """Print the removed build."""
    console.line(f"removed {result.data.name} ({result.data.bytes / GB:.2f} GB)")


COMMAND = CommandGroup(
    summary="Keep several torch builds side by side and switch between them.",
    summaries={
        "list": "the builds that are kept, and the active one",
        "info": "what is in a build, or what exists for this machine",
        "download": "get a build without switching to it, or wheels for another machine",
        "activate": "switch to a build, without reinstalling",
        "remove": "delete a build",
        "verify": "run the kernels on every device again",
        "build": "build torch from source, or say what that needs",
    },
    commands={
        "list": Command(
            schema="fdl.libtorch.list/1", data=ListData, parse=parse_list, run=run_list,
            show=show_list,
        ),
        "info": Command(
            schema="fdl.libtorch.info/1", data=InfoData, parse=parse_info, run=run_info,
            show=show_info,
        ),
        "download": DOWNLOAD,
        "activate": Command(
            schema="fdl.libtorch.activate/1", data=SwitchData, parse=parse_activate,
            run=run_activate, show=show_switch,
        ),
        "remove": Command(
            schema="fdl.libtorch.remove/1", data=BuildRow, parse=parse_remove, run=run_remove,
            show=show_remove,
        ),
        "verify": Command(
            schema="fdl.libtorch.verify/1", data=SwitchData, parse=parse_verify, run=run_verify,
            show=show_switch,
        ),
        "build": BUILD,
    },
)  # fmt: skip
