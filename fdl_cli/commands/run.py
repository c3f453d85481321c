"""`fdl run TASK` and `fdl TASK`: run a task of the project, or show what it would do."""

import os
from dataclasses import dataclass
from typing import Annotated, Final, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.task_context import surroundings
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import EnvironmentLackingError, FdlError, OperationFailedError, UsageError
from fdl_cli.manifest.model import Change, Flags, Invocation, Trouble
from fdl_cli.manifest.plan import Plan, make_plan
from fdl_cli.manifest.project import Surroundings, explained
from fdl_cli.manifest.records import record_end, record_start
from fdl_cli.manifest.request import Request, needed_by, prepare, read_request
from fdl_cli.manifest.resolve import surprise
from fdl_cli.manifest.supervise import NOT_STARTED, Ended, end_as, run_child
from fdl_cli.result import CommandResult

_VERBOSITY: Final = "FLODL_VERBOSITY"
# The levels of `flodl.log` for -v, -vv and -vvv; a test compares the names.
_LOUDER: Final = ("verbose", "debug", "trace")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The task's words, exactly as given, and the options before them."""

    words: tuple[str, ...]
    flags: Flags
    overlay_word: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """The plan of the task, or its help; `exit_code` is that of a task that has run."""

    plan: Plan | None
    help: str | None
    exit_code: int | None


def parse(
    words: Annotated[
        list[str], typer.Argument(metavar="TASK", help="The task, its presets, its arguments.")
    ],
    *,
    env: Annotated[
        str | None, typer.Option("--env", help="Lay `fdl.NAME.yml` over the manifest.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show the command, run nothing.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Run here, even if it names a Docker service.")
    ] = False,
    docker: Annotated[
        bool, typer.Option("--docker", help="Run in its service, even inside a container.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append/--no-append", help="Add what the task appends.")
    ] = True,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until it ends even where nothing is recorded.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Answer its question with yes.")
    ] = False,
) -> RunOptions:
    """Run a task of `fdl.yml`, from any folder of the project.

    `fdl TASK` is the same, unless TASK is also a command of fdl. Options for fdl come before the
    task's name; everything after `--` goes to the task, byte for byte.
    """
    place = "native" if native else "docker" if docker else None
    flags = Flags(environment=env, dry_run=dry_run, append=append, place=place, wait=wait, yes=yes)
    return RunOptions(words=tuple(words), flags=flags, overlay_word=False)


def run(context: Context, options: RunOptions) -> CommandResult[RunData]:
    """Run the task, and end as it does.

    Raises:
        UsageError: the words do not fit the task.
        NeedsTerminalError: a setup or the task needs an answer, and there is no terminal.
    """
    around = surroundings(context)
    request = read_request(around, options.words, options.flags, overlay_word=options.overlay_word)
    if request.flags.help:
        return _result(RunData(plan=None, help=_help(request, around), exit_code=None))
    invocation = pass_verbosity(prepare(request, around), context.verbosity)
    if request.flags.dry_run:
        plan = make_plan(request, invocation, context.environ)
        return _result(RunData(plan=plan, help=None, exit_code=None))
    if context.json:
        raise UsageError(
            error_id="usage",
            message="a task writes its own output, so `--json` cannot be kept",
            hint=f"`fdl -n --json {' '.join(invocation.task)}` shows the plan as JSON",
        )
    invocation = _ready(context, request, around, invocation)
    _ask(context, invocation)
    _run_needed(context, request, around)
    ended = _start(context, request, invocation)
    if ended.signal is not None:
        end_as(ended)
    return _result(RunData(plan=None, help=None, exit_code=ended.code), ended.code)


def show(result: CommandResult[RunData], console: Console) -> None:
    """Print the help, or the command that would run."""
    if result.data.help is not None:
        console.line(result.data.help)
    plan = result.data.plan
    if plan is None:
        return
    if plan.needs:
        console.note(f"would first run {', '.join(plan.needs)}", "dim")
    where = f"in the service `{plan.service}`" if plan.service else f"in {plan.folder}"
    if plan.passed_over:
        where += f", {plan.passed_over}"
    console.note(f"would run {where}:", "dim")
    console.line(plan.command)


def pass_verbosity(invocation: Invocation, verbosity: int) -> Invocation:
    """Return the task with the verbosity of flodl, if `-q` or `-v` was given.

    The command line wins over the manifest and over the environment.

    Example:
        >>> task = Invocation(("train",), ("python",), "/p", (), None, None, "")
        >>> pass_verbosity(task, 1).changes
        (Change(name='FLODL_VERBOSITY', value='verbose', reason='`-v` of fdl'),)
        >>> pass_verbosity(task, 0).changes
        ()
    """
    if verbosity == 0:
        return invocation
    level = "quiet" if verbosity < 0 else _LOUDER[min(verbosity, len(_LOUDER)) - 1]
    option = "-q" if verbosity < 0 else f"-{'v' * verbosity}"
    others = tuple(each for each in invocation.changes if each.name != _VERBOSITY)
    change = Change(_VERBOSITY, level, f"`{option}` of fdl")
    return invocation._replace(changes=(*others, change))


def _result(data: RunData, code: int = 0) -> CommandResult[RunData]:
    return CommandResult(schema="fdl.run/1", data=data, ok=code == 0, exit_code=code)


def _help(request: Request, around: Surroundings) -> str:
    from fdl_cli.manifest.describe import task_help
    from fdl_cli.manifest.probe import entry_schema, run_schema

    found, stored = request.found, request.project.stored
    if found.entry is None:
        schema, untold = run_schema(stored, found, around.environ)
    else:
        try:
            schema, untold = entry_schema(stored, found, around.environ), ""
        except Trouble as trouble:
            raise explained(trouble) from trouble
    return "\n".join(task_help(found, schema, around.environ, untold))


def _ready(
    context: Context, request: Request, around: Surroundings, invocation: Invocation
) -> Invocation:
    """Set the project up, if the task needs packages that are missing; return the program to run then."""
    from fdl_cli.manifest.readiness import find_python
    from fdl_cli.manifest.resolve import required

    if not required(request.project.stored, request.found):
        return invocation
    from fdl_cli.commands import project_setup

    if invocation.service is not None:
        project_setup.prepare_image(context, request)
        return invocation
    missing = project_setup.missing_packages(context, request, invocation)
    if not missing:
        return invocation
    python = find_python(invocation, context.environ)
    project_setup.set_up_first(context, request, missing, python)
    invocation = prepare(request, around)
    python = find_python(invocation, context.environ)
    missing = project_setup.missing_packages(context, request, invocation)
    project_setup.require_packages(request, missing, python)
    return invocation


def _ask(context: Context, invocation: Invocation) -> None:
    if invocation.confirm and not context.console.confirm(invocation.confirm, flag="--yes"):
        raise OperationFailedError(
            error_id="declined", message="nothing was run", hint="answer y, or pass `--yes`"
        )


def _run_needed(context: Context, request: Request, around: Surroundings) -> None:
    """Run the tasks that this one needs, with its overlay and its place, to their ends."""
    flags = request.flags._replace(wait=True)
    for found in needed_by(request):
        inner = read_request(around, found.names, flags, overlay_word=False)
        invocation = pass_verbosity(prepare(inner, around), context.verbosity)
        invocation = _ready(context, inner, around, invocation)
        _ask(context, invocation)
        name = " ".join(found.names)
        context.console.note(f"first: {name}", "dim")
        code = _start(context, inner, invocation).code
        if code != 0:
            raise OperationFailedError(
                error_id="needed-task-failed",
                message=f"the task `{name}`, which `{' '.join(request.found.names)}` needs, "
                f"ended with exit code {code}",
                hint=f"`fdl {name}` runs it by itself",
            )


def _start(context: Context, request: Request, invocation: Invocation) -> Ended:
    stored = request.project.stored
    note = surprise(invocation, context.environ)
    if note is not None:
        context.console.note(note)
    run_id = record_start(
        invocation,
        stored.root,
        stored.environment,
        request.words,
        request.flags,
        context.environ,
    )
    context.console.detail(f"+ {' '.join(invocation.argv)}")
    if invocation.service is not None:
        from fdl_cli.manifest.docker_tasks.docker_task import run_in_service

        ended = run_in_service(request.project, invocation, context.environ, context.console.note)
    else:
        ended = _run_here(context, request, invocation, run_id)
    if run_id is not None:
        record_end(run_id, stored.root, ended.code, ended.seconds, context.environ)
    return ended


def _run_here(
    context: Context, request: Request, invocation: Invocation, run_id: str | None
) -> Ended:
    """Run the task to its end, or become it where nobody asks how it ended."""
    from fdl_cli.manifest.execute import become

    context.console.flush()
    context.console.err.flush()
    try:
        if run_id is not None or request.flags.wait:
            return run_child(invocation, context.environ)
        become(invocation, context.environ)
    except OSError as problem:
        if run_id is not None:
            root = request.project.stored.root
            record_end(run_id, root, NOT_STARTED, 0.0, context.environ)
        raise _cannot_start(invocation, problem) from problem


def _cannot_start(invocation: Invocation, problem: OSError) -> FdlError:
    name = " ".join(invocation.task)
    if not os.path.isdir(invocation.folder):  # noqa: PTH112 - text, as the plan has it
        return EnvironmentLackingError(
            error_id="folder-missing",
            message=f"the task `{name}` runs in `{invocation.folder}`, which does not exist",
            hint=f"create it, or correct `cwd` (`fdl why {name}` shows who sets it)",
        )
    return EnvironmentLackingError(
        error_id="program-missing",
        message=f"cannot run `{invocation.argv[0]}` for the task `{name}`: {problem.strerror}",
        hint=f"install it, or correct the task (`fdl why {name}` shows who sets it)",
    )


COMMAND = Command(schema="fdl.run/1", data=RunData, parse=parse, run=run, show=show)
