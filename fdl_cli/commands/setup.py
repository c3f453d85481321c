"""`fdl setup`: the right torch on this machine, proved by a kernel on every device."""

from pathlib import Path
from typing import Annotated

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult
from fdl_cli.torch_setup.setup_data import SetupData, SetupOptions


def parse(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print facts, choice, files and actions; do nothing.")
    ] = False,
    torch: Annotated[
        str | None, typer.Option("--torch", help="The version, such as 2.14.1 or 2.14.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", help="The build: cpu, cu126, rocm7.2, xpu ...")
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="The same as --variant cpu.")] = False,
    cuda: Annotated[
        str | None, typer.Option("--cuda", help="The build for a CUDA version, such as 12.8.")
    ] = None,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", help="Only this GPU counts: index or UUID.")
    ] = None,
    gpu_target: Annotated[
        str | None, typer.Option("--gpu-target", help="For an image: capabilities, 8.6,12.0.")
    ] = None,
    driver_target: Annotated[
        str | None, typer.Option("--driver-target", help="For an image: the driver, such as 580.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail instead of leaving a GPU unused.")
    ] = False,
    env: Annotated[
        Path | None, typer.Option("--env", help="The environment; else the project's .venv.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option("--python", help="The interpreter for a new environment.")
    ] = None,
    index_url: Annotated[
        str | None, typer.Option("--index-url", help="Another index in place of pytorch.org's.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option("--mirror", help="A mirror of download.pytorch.org/whl.")
    ] = None,
    proxy: Annotated[str | None, typer.Option("--proxy", help="http://host:port")] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only the cache and --find-links; no network.")
    ] = False,
    find_links: Annotated[
        list[Path] | None, typer.Option("--find-links", help="A folder of wheels.")
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option("--cache-dir", help="Where downloads are kept.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Keep the build in ./libtorch of this project.")
    ] = False,
    lock: Annotated[
        bool,
        typer.Option("--lock", help="Take the newest versions; write them to constraints.txt."),
    ] = False,
    facts: Annotated[
        Path | None,
        typer.Option("--facts", help="With --dry-run: plan for the machine in this file."),
    ] = None,
) -> SetupOptions:
    """Find the torch that fits this machine, install it and prove it; then install the project.

    The environment keeps its old torch until the new one has run kernels on every device. A project
    whose fdl.yml says what its tasks require is installed in place, with flodl and its tools, in the
    versions of its constraints.txt.
    """
    return SetupOptions(
        yes=yes, dry_run=dry_run, torch=torch, variant=variant, cpu=cpu, cuda=cuda,
        gpu=tuple(gpu or ()), gpu_target=gpu_target, driver_target=driver_target, strict=strict,
        env=env, python=python, index_url=index_url, mirror=mirror, proxy=proxy, offline=offline,
        find_links=tuple(find_links or ()), cache_dir=cache_dir, local=local, lock=lock,
        facts=facts,
    )  # fmt: skip


def run(context: Context, options: SetupOptions) -> CommandResult[SetupData]:
    """Plan, confirm, and carry out."""
    from fdl_cli.commands.project_setup import project_here
    from fdl_cli.torch_setup.setup_command import perform_setup

    project = None if options.facts is not None else project_here(context)
    return perform_setup(context, options, project)


def show(result: CommandResult[SetupData], console: Console) -> None:
    """Print the choice, the reason, and the actions, done or planned."""
    from fdl_cli.torch_setup.setup_command import show_setup

    show_setup(result.data, console)


COMMAND = Command(schema="fdl.setup/1", data=SetupData, parse=parse, run=run, show=show)
