"""`fdl why TASK`: the resolved command, its environment, and which file and line set what."""

from dataclasses import dataclass
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.task_context import surroundings
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.manifest.model import Flags
from fdl_cli.manifest.plan import Plan, make_plan
from fdl_cli.manifest.request import prepare, read_request
from fdl_cli.result import CommandResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WhyOptions:
    """The task and its arguments."""

    words: tuple[str, ...]
    env: str | None


def parse(
    words: Annotated[
        list[str], typer.Argument(metavar="TASK", help="The task, its presets, its arguments.")
    ],
    *,
    env: Annotated[
        str | None, typer.Option("--env", help="Lay `fdl.NAME.yml` over the manifest.")
    ] = None,
) -> WhyOptions:
    """Explain what a task would run and which file and line set each part; run nothing."""
    return WhyOptions(words=tuple(words), env=env)


def run(context: Context, options: WhyOptions) -> CommandResult[Plan]:
    """Resolve the task and collect the origins."""
    around = surroundings(context)
    flags = Flags(environment=options.env)
    request = read_request(around, options.words, flags, overlay_word=True)
    plan = make_plan(request, prepare(request, around), context.environ)
    return CommandResult(schema="fdl.why/1", data=plan)


def show(result: CommandResult[Plan], console: Console) -> None:
    """Print the plan with origins."""
    plan = result.data
    console.line(f"task      {plan.task}", "strong")
    console.line(f"command   {plan.command}")
    console.line(f"folder    {plan.folder}")
    where = f"Docker service {plan.service}" if plan.service else "here"
    if plan.passed_over:
        where += f", {plan.passed_over} (`fdl run --docker {plan.task}` asks for it)"
    console.line(f"where     {where}")
    console.line(f"overlay   {plan.overlay or 'none'}")
    if plan.needs:
        console.line(f"first     {', '.join(plan.needs)}")
    if plan.confirm:
        console.line(f"asks      {plan.confirm}")
    if plan.variables:
        console.line("environment")
    for item in plan.variables:
        origin = f"{item.file}:{item.line}" if item.file else item.reason
        was = f", was {item.before}" if item.before not in (None, item.value) else ""
        console.line(f"  {item.name}={item.value}  ({origin}{was})")
    console.line("settings")
    for setting in plan.settings:
        console.line(f"  {setting.key}: {setting.value}  ({setting.file}:{setting.line})")


COMMAND = Command(schema="fdl.why/1", data=Plan, parse=parse, run=run, show=show)
