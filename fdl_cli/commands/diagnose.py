"""`fdl diagnose`: the state of this machine, environment and project, and what to do about it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console, Style
from fdl_cli.context import Context
from fdl_cli.diagnose.check import Check, Severity
from fdl_cli.result import CommandResult
from fdl_cli.system.facts import SystemFacts


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseOptions:
    """The checks to run, and the meaning of the exit code."""

    env: Path | None
    python: Path | None
    check: bool
    probe: bool
    report: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseData:
    """The facts, the answered checks, and the report when it was requested."""

    facts: SystemFacts
    checks: tuple[Check, ...]
    report: str | None


def parse(
    *,
    env: Annotated[
        Path | None, typer.Option("--env", help="The environment to look at.", metavar="DIR")
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option("--python", help="The environment of this interpreter, in place of --env."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 if a check found an error.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Also import torch and run kernels on every device.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Print a report to paste, without names or secrets.")
    ] = False,
) -> DiagnoseOptions:
    """Look at Python, torch, GPUs, Docker, limits and the project; change nothing.

    `fdl diagnose --json` is also the file of facts that `fdl setup --facts` plans from.
    """
    return DiagnoseOptions(env=env, python=python, check=check, probe=probe, report=report)


def run(context: Context, options: DiagnoseOptions) -> CommandResult[DiagnoseData]:
    """Collect the facts and answer the checks."""
    from fdl_cli.commands.diagnose_project import project_checks
    from fdl_cli.diagnose.diagnosis import diagnose, write_report
    from fdl_cli.system.user_python import named_environment

    env = options.env
    if options.python is not None:
        env = named_environment(context.cwd / options.python).folder
    facts, checks = diagnose(context, env, probe=options.probe)
    if context.project_root is not None:
        checks = (*checks, *project_checks(context.project_root))
    failed = any(check.severity == "error" for check in checks)
    return CommandResult(
        schema="fdl.diagnose/1",
        ok=not (failed and options.check),
        data=DiagnoseData(
            facts=facts,
            checks=checks,
            report=write_report(facts, checks, context.environ) if options.report else None,
        ),
        exit_code=1 if failed and options.check else 0,
    )


_STYLES: dict[Severity, Style] = {
    "ok": "success",
    "info": "dim",
    "warning": "warning",
    "error": "error",
}


def show(result: CommandResult[DiagnoseData], console: Console) -> None:
    """Print the checks by group, each with its remedy; or the report."""
    if result.data.report is not None:
        console.write(result.data.report)
        return
    group = ""
    for check in result.data.checks:
        if check.group != group:
            group = check.group
            console.line(group, "strong")
        word = console.styled(f"{check.severity:7}", _STYLES[check.severity])
        console.line(f"  {word} {check.id}: {check.message}")
        if check.remedy and not check.ok:
            console.line(f"          fix: {check.remedy}", "hint")


COMMAND = Command(schema="fdl.diagnose/1", data=DiagnoseData, parse=parse, run=run, show=show)
