"""`fdl init`: a new project in one step, or an existing one brought up to newer templates."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.commands.init_answers import license_notice, python_notice, with_metadata
from fdl_cli.commands.init_port import ported_files
from fdl_cli.commands.scaffold_report import FileReport, ScaffoldData, reports, show
from fdl_cli.commands.scaffold_update import UpdateOptions, update_project
from fdl_cli.context import Context
from fdl_cli.errors import ConflictError, FdlError, Notice, UsageError
from fdl_cli.result import CommandResult
from fdl_cli.scaffold.answers import Answers, make_answers, slug
from fdl_cli.scaffold.plan import Action, PlannedFile, plan_new
from fdl_cli.scaffold.record import record_text
from fdl_cli.scaffold.rendering import ProjectFile, render

Vcs = Literal["git", "none"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """The place of the project, its parts, and the permission to overwrite."""

    target: str | None
    docker: bool
    bare: bool
    with_hf: bool
    pre_commit: bool
    script: Path | None
    author: str | None
    license: str | None
    python: str | None
    vcs: Vcs
    force: bool
    skip_existing: bool
    yes: bool
    dry_run: bool
    update: bool
    check: bool
    allow_dirty: bool


def parse(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The folder to make; its name is the project's."),
    ] = None,
    *,
    docker: Annotated[
        bool,
        typer.Option("--docker/--native", help="Run tasks in a container, or on this machine."),
    ] = False,
    bare: Annotated[
        bool, typer.Option("--bare", help="Without CI, editor files and notes for assistants.")
    ] = False,
    with_hf: Annotated[
        bool, typer.Option("--with-hf", help="Train a Hugging Face encoder, as a graph node.")
    ] = False,
    pre_commit: Annotated[
        bool, typer.Option("--pre-commit", help="Add hooks that check style and types.")
    ] = False,
    script: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="SCRIPT", help="Port this PyTorch script into the project."
        ),
    ] = None,
    author: Annotated[
        str | None,
        typer.Option("--author", metavar="NAME", help="As in 'Jane <jane@example.org>'."),
    ] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", metavar="SPDX", help="Such as MIT or Apache-2.0.")
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", metavar="VERSION", help="The oldest, such as 3.12.")
    ] = None,
    vcs: Annotated[
        Vcs, typer.Option("--vcs", help="Start a git repository, unless inside one.")
    ] = "git",
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Keep existing files, write the others.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Yes to writing into a folder that has files.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be written; write nothing.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Bring this project up to the newest templates.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="With --update: exit 1 if there is something to do.")
    ] = False,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="With --update: despite uncommitted changes.")
    ] = False,
) -> InitOptions:
    """Make a training project: it runs, tests itself and resumes exactly, without network.

    On a terminal it asks for author, licence and Python, unless you give one of them or --yes.

    With --update, an existing project gets the newest templates: files you left alone are
    replaced, files you edited are merged, files you removed stay away.
    """
    return InitOptions(
        target=target,
        docker=docker,
        bare=bare,
        with_hf=with_hf,
        pre_commit=pre_commit,
        script=script,
        author=author,
        license=license_name,
        python=python,
        vcs=vcs,
        force=force,
        skip_existing=skip_existing,
        yes=yes,
        dry_run=dry_run,
        update=update,
        check=check,
        allow_dirty=allow_dirty,
    )


def run(context: Context, options: InitOptions) -> CommandResult[ScaffoldData]:
    """Make or update a project.

    Raises:
        UsageError: the options contradict each other, or the name is impossible.
        ConflictError: files would be overwritten.
        OperationFailedError: the folder cannot be written, or the script cannot be ported.
    """
    _check(options)
    if options.update:
        wanted = UpdateOptions(
            dry_run=options.dry_run, check=options.check, allow_dirty=options.allow_dirty
        )
        return update_project(context, COMMAND.schema, wanted)
    root, name = _place(context.cwd, options.target or ".")
    answers = _answers(context, options, name)
    files = render(answers, context.directories.cache)
    warnings = _renamed(context.cwd, options.target or ".", answers)
    warnings += python_notice(answers) + license_notice(answers)
    extra: tuple[ProjectFile, ...] = ()
    if options.script is not None:
        extra, notices = ported_files(context, answers, context.cwd / options.script)
        warnings += notices
    planned = plan_new(
        root, (*files, *extra), force=options.force, skip_existing=options.skip_existing
    )
    conflicts = [step.path for step in planned if step.action == "conflict"]
    if conflicts and not options.dry_run:
        raise _would_overwrite(root, conflicts)
    if not options.dry_run and (root.exists() and any(root.iterdir()) and not options.yes):
        _ask(context, root, planned)
    written: tuple[FileReport, ...] = ()
    if not options.dry_run:
        record = record_text(answers, files)
        notices, written = _write(context, root, planned, record, vcs=options.vcs)
        warnings += notices
    data = ScaffoldData(
        root=root,
        name=answers.name,
        package=answers.package,
        mode=answers.mode,
        parts=answers.parts,
        dry_run=options.dry_run,
        files=(*reports(planned), *written),
        next_steps=() if options.dry_run else _next_steps(context.cwd, root),
    )
    return CommandResult(
        schema=COMMAND.schema,
        data=data,
        ok=not conflicts,
        warnings=warnings,
        exit_code=ConflictError.exit_code if conflicts else 0,
    )


def _check(options: InitOptions) -> None:
    wrong = ""
    hint = "try `fdl init my-proj`"
    if options.update and (options.target or options.docker or options.script):
        wrong, hint = "--update is for the project you are in", "try `fdl init --update`"
    elif not options.update and (options.check or options.allow_dirty):
        wrong, hint = "--check and --allow-dirty belong to --update", "try `fdl init --update`"
    elif options.update and (options.author or options.license or options.python):
        wrong = "--author, --license and --python are for a new project"
        hint = "edit `pyproject.toml`: `fdl init --update` keeps what you change"
    elif not options.update and options.target is None:
        wrong = "the name of the project is missing"
    elif options.force and options.skip_existing:
        wrong, hint = "--force and --skip-existing contradict each other", "choose one of them"
    if wrong:
        raise UsageError(error_id="init-usage", message=wrong, hint=hint)


def _place(cwd: Path, target: str) -> tuple[Path, str]:
    """Return the folder of the project and its name; a folder that does not exist gets that name."""
    root = (cwd / target).resolve()
    name = slug(root.name)
    return (root if root.exists() else root.with_name(name)), name


def _renamed(cwd: Path, target: str, answers: Answers) -> tuple[Notice, ...]:
    given = (cwd / target).resolve().name
    if given == answers.name:
        return ()
    notice = Notice(
        id="init-renamed",
        message=f"`{given}` cannot be the name of a package, so the project is `{answers.name}` "
        f"and its package `{answers.package}`",
        hint="if you want another name, pass it: `fdl init my-proj`",
    )
    return (notice,)


def _answers(context: Context, options: InitOptions, name: str) -> Answers:
    answers = make_answers(
        name,
        docker=options.docker,
        with_hf=options.with_hf,
        bare=options.bare,
        pre_commit=options.pre_commit,
        ported="" if options.script is None else _module_name(options.script),
    )
    return with_metadata(
        context,
        answers,
        options.author,
        options.license,
        options.python,
        may_ask=not (options.yes or options.dry_run),
    )


def _module_name(script: Path) -> str:
    name = re.sub(r"\W+", "_", script.stem).lower()
    if script.suffix != ".py" or not name.isidentifier():
        raise UsageError(
            error_id="init-script",
            message=f"`{script}` is not a Python file with a usable name",
            hint="rename it to something like `model.py`",
        )
    # The project has these modules itself.
    own = {"config", "data", "model", "train", "evaluate", "encoder"}
    return f"{name}_ported" if name in own else name


def _would_overwrite(root: Path, paths: list[str]) -> ConflictError:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ConflictError(
        error_id="project-files-exist",
        message=f"`{root}` has {', '.join(f'`{path}`' for path in paths[:3])}{more} already",
        hint="--skip-existing keeps them, --force overwrites them, --dry-run lists all",
    )


def _ask(context: Context, root: Path, planned: tuple[PlannedFile, ...]) -> None:
    count = sum(step.action in ("create", "update") for step in planned)
    question = f"`{root}` has files already. Write {count} files into it?"
    if not context.console.confirm(question, flag="--yes"):
        raise ConflictError(
            error_id="init-declined",
            message="nothing was written",
            hint="choose an empty folder: `fdl init my-proj`",
        )


def _write(
    context: Context, root: Path, planned: tuple[PlannedFile, ...], record: str, *, vcs: Vcs
) -> tuple[tuple[Notice, ...], tuple[FileReport, ...]]:
    from fdl_cli.scaffold.writing import change_project, create_project

    notices: list[Notice] = []
    written: list[FileReport] = []

    def finish(folder: Path) -> None:
        written.extend(_own_wheel(folder))
        if vcs == "git":
            notices.extend(_git_init(context, folder))

    if root.exists():
        change_project(root, planned, record)
        finish(root)
    else:
        create_project(root, planned, record, finish)
    return tuple(notices), tuple(written)


def _own_wheel(folder: Path) -> tuple[FileReport, ...]:
    """Put the wheel of this tool into a project, if no index has it: its image and its CI need it.

    A checkout is not built for it, because that takes seconds; `fdl setup` does it.
    """
    from fdl_cli.torch_setup.install.own_wheel import own_installation, put_wheel, vendored

    own = own_installation()
    if own is None or own.from_index or own.sources is not None:
        return ()
    before = vendored(folder)
    wheel = put_wheel(folder, own)
    path = wheel.relative_to(folder).as_posix()
    action: Action = "create" if before is None else "update"
    return (FileReport(path=path, action=action, reason="no index has this flodl"),)


def _git_init(context: Context, folder: Path) -> tuple[Notice, ...]:
    from fdl_cli.system.process import run as run_program

    if any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return ()
    try:
        command: list[str | Path] = ["git", "init", "--quiet", "--initial-branch=main", folder]
        run_program(command, env=context.environ, timeout=20)
    except FdlError as problem:
        notice = Notice(
            id="init-without-git",
            message=f"no git repository was started: {problem.message}",
            hint="install git and run `git init`, or pass --vcs none",
        )
        return (notice,)
    return ()


def _next_steps(cwd: Path, root: Path) -> tuple[str, ...]:
    go = () if root == cwd else (f"cd {shlex.quote(_short(root, cwd))}",)
    return (*go, "fdl train", "fdl check")


def _short(root: Path, cwd: Path) -> str:
    return str(root.relative_to(cwd)) if root.is_relative_to(cwd) else str(root)


COMMAND = Command(schema="fdl.init/1", data=ScaffoldData, parse=parse, run=run, show=show)
