"""`fdl libtorch download`: a build without switching to it, or wheels for another machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import UsageError
from fdl_cli.result import CommandResult
from fdl_cli.torch_setup.choice.constraints import make_wishes
from fdl_cli.torch_setup.setup_data import SetupRequest

GB = 1e9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadOptions:
    """The build, the machine that it is for, and the folder."""

    request: SetupRequest
    to: Path | None
    platform: str
    python: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadData:
    """The fetched files; `install` is the command for the other machine."""

    name: str
    why: str
    folder: str
    files: tuple[str, ...]
    bytes: int
    install: str


def parse(
    *,
    torch: Annotated[str | None, typer.Option("--torch", help="The version.")] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", help="The build, such as cpu.")
    ] = None,
    gpu_target: Annotated[
        str | None, typer.Option("--gpu-target", help="Capabilities of the GPUs: 8.6,12.0.")
    ] = None,
    driver_target: Annotated[
        str | None, typer.Option("--driver-target", help="The driver there, such as 580.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Put wheels into this folder instead.")
    ] = None,
    platform: Annotated[
        str, typer.Option("--platform", help="With --to: linux_x86_64, win_amd64 ...")
    ] = "linux_x86_64",
    python: Annotated[
        str | None, typer.Option("--python", help="With --to: the Python there, such as 3.12.")
    ] = None,
    index_url: Annotated[str | None, typer.Option("--index-url", help="Another index.")] = None,
    mirror: Annotated[str | None, typer.Option("--mirror", help="A mirror.")] = None,
    proxy: Annotated[str | None, typer.Option("--proxy", help="http://host:port")] = None,
    cache_dir: Annotated[
        Path | None, typer.Option("--cache-dir", help="Where downloads are kept.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Keep the build in ./libtorch of this project.")
    ] = False,
) -> DownloadOptions:
    """Fetch a build and keep it, or fill a folder with wheels for a machine without network."""
    values = {
        "torch": torch, "variant": variant, "gpu_target": gpu_target,
        "driver_target": driver_target,
    }  # fmt: skip
    request = SetupRequest(
        wishes=make_wishes({key: value for key, value in values.items() if value is not None}),
        index_url=index_url,
        mirror=mirror,
        proxy=proxy,
        cache_dir=cache_dir,
        local=local,
    )
    return DownloadOptions(request=request, to=to, platform=platform, python=python)


def run(context: Context, options: DownloadOptions) -> CommandResult[DownloadData]:
    """Fetch for this machine into the store, or for another into a folder."""
    if options.to is not None:
        return _fill(context, options, options.to)
    from fdl_cli.torch_setup.install.acquire import acquire
    from fdl_cli.torch_setup.install.pip_tool import find_pip
    from fdl_cli.torch_setup.setup_command import notices_of
    from fdl_cli.torch_setup.setup_plan import make_plan
    from fdl_cli.torch_setup.setup_run import prepare_in

    plan = make_plan(context, options.request)
    build, _ = acquire(plan, options.request, find_pip(plan.environment), context.console)
    if plan.environment.kind != "missing":
        prepare_in(build, plan.environment, context.console)
    data = DownloadData(
        name=build.name,
        why=plan.choice.why,
        folder=build.folder,
        files=tuple(f"{dist.name} {dist.version}" for dist in build.dists),
        bytes=build.bytes,
        install=f"fdl libtorch activate {build.name}",
    )
    return CommandResult(
        schema="fdl.libtorch.download/1",
        data=data,
        warnings=(*notices_of(plan.choice), *plan.notices),
    )


def show(result: CommandResult[DownloadData], console: Console) -> None:
    """Print the fetched files and the command that uses them."""
    data = result.data
    console.line(f"{data.name}: {data.bytes / GB:.2f} GB in {data.folder}", "success")
    for name in data.files:
        console.line(f"  {name}")
    console.line(f"use it with `{data.install}`")


def _fill(context: Context, options: DownloadOptions, folder: Path) -> CommandResult[DownloadData]:
    from fdl_cli.torch_setup.install.wheelhouse import Target, fill_wheelhouse

    if options.python is None:
        raise UsageError(
            error_id="python-missing",
            message="wheels are made for one Python, and `--to` does not say for which",
            hint="add `--python 3.12`",
        )
    target = Target(platform=options.platform, python=options.python)
    found = fill_wheelhouse(context, options.request, target, context.cwd / folder)
    data = DownloadData(
        name=f"{found.torch}+{found.variant}",
        why=found.why,
        folder=found.folder,
        files=found.files,
        bytes=found.bytes,
        install=found.install,
    )
    return CommandResult(schema="fdl.libtorch.download/1", data=data, warnings=found.notices)


DOWNLOAD = Command(
    schema="fdl.libtorch.download/1", data=DownloadData, parse=parse, run=run, show=show
)
