"""`fdl libtorch build`: torch from source, or an honest list of its requirements."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult
from fdl_cli.torch_setup.install.source_build import SourceBuild


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The build to make, how and where."""

    torch: str
    arch: str | None
    docker: bool
    folder: Path
    python: str
    dry_run: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceData:
    """The plan, and the wheel when it was built."""

    plan: SourceBuild
    possible: bool
    wheel: str | None


def parse(
    *,
    torch: Annotated[str, typer.Option("--torch", help="The version to build.")] = "2.14.1",
    arch: Annotated[
        str | None, typer.Option("--arch", help="Capabilities, such as '6.1;12.0'.")
    ] = None,
    docker: Annotated[bool, typer.Option("--docker", help="Build in a container.")] = False,
    folder: Annotated[Path, typer.Option("--folder", help="Where sources and results go.")] = Path(
        "torch-source"
    ),
    python: Annotated[
        str, typer.Option("--python", help="The interpreter to build for, with --docker ignored.")
    ] = "python3",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is needed and what would run.")
    ] = False,
) -> SourceOptions:
    """Build torch from source, for GPUs that no published build serves together.

    That takes hours, tens of gigabytes and a compiler; first look at --dry-run.
    """
    return SourceOptions(
        torch=torch, arch=arch, docker=docker, folder=folder, python=python, dry_run=dry_run
    )


def run(context: Context, options: SourceOptions) -> CommandResult[SourceData]:
    """Plan the build, and run it unless only the plan is wanted."""
    from fdl_cli.system.collect import collect
    from fdl_cli.system.python_env import this_python
    from fdl_cli.torch_setup.choice.constraints import make_wishes
    from fdl_cli.torch_setup.install.source_build import plan_source_build, run_source_build

    version = make_wishes({"torch": options.torch}).torch or options.torch
    facts = collect(context.environ, context.cwd, this_python())
    plan = plan_source_build(
        facts,
        torch=version,
        way="docker" if options.docker else "native",
        folder=context.cwd / options.folder,
        arch=options.arch,
        python=options.python,
    )
    wheel: str | None = None
    if not options.dry_run:
        wheel = str(run_source_build(plan, context.console.echo))
    return CommandResult(
        schema="fdl.libtorch.build/1",
        data=SourceData(plan=plan, possible=plan.possible, wheel=wheel),
    )


def show(result: CommandResult[SourceData], console: Console) -> None:
    """Print the requirements, the cost, and the commands; or the wheel."""
    plan = result.data.plan
    if result.data.wheel is not None:
        console.line(f"built {result.data.wheel}", "success")
        console.line(f"install it with `pip install {result.data.wheel}`, then `fdl setup -y`")
        return
    console.line(f"torch {plan.torch} for {plan.arch_list}, {plan.way}", "strong")
    console.line(f"  about {plan.hours:g} hours with {plan.jobs} jobs")
    for item in plan.requirements:
        console.line(f"  {'ok     ' if item.present else 'missing'} {item.name}: {item.detail}")
    for key, value in plan.environment:
        console.line(f"  export {key}={value}")
    for command in plan.commands:
        console.line(f"  {' '.join(command)}")


BUILD = Command(schema="fdl.libtorch.build/1", data=SourceData, parse=parse, run=run, show=show)
