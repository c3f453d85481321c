"""Update of a project to other templates: newer ones, or those of one part more."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli import __version__
from fdl_cli.commands.scaffold_report import ScaffoldData, reports
from fdl_cli.context import Context
from fdl_cli.errors import ConflictError, FdlError, NotFoundError
from fdl_cli.result import CommandResult
from fdl_cli.scaffold.answers import Answers
from fdl_cli.scaffold.plan import PlannedFile, plan_update
from fdl_cli.scaffold.record import RECORD, read_record, record_text
from fdl_cli.scaffold.rendering import render


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """The settings of an update; `answers` replaces those of the project, to add a part."""

    dry_run: bool = False
    check: bool = False
    allow_dirty: bool = False
    answers: Answers | None = None


def update_project(
    context: Context, schema: str, options: UpdateOptions
) -> CommandResult[ScaffoldData]:
    """Merge templates into the project around the current folder.

    Raises:
        NotFoundError: there is no project made by `fdl init` here.
        ConflictError: there are uncommitted changes, and conflicts could not be undone.
    """
    from fdl_cli.scaffold.writing import change_project
    from fdl_cli.system.transaction import recover

    root = project_root(context.cwd)
    writes = not (options.dry_run or options.check)
    if writes:
        recover(root)
    record = read_record(root)
    answers = options.answers or record.answers
    files = render(answers, context.directories.cache)
    planned = plan_update(root, record.base, files)
    changed = [step for step in planned if step.text is not None or step.action == "remove"]
    if changed and writes:
        if not options.allow_dirty:
            _require_clean(context, root)
        change_project(root, planned, record_text(answers, files))
    elif writes and (record.base != {file.path: file.text for file in files}):
        change_project(root, (), record_text(answers, files))
    data = ScaffoldData(
        root=root,
        name=answers.name,
        package=answers.package,
        mode=answers.mode,
        parts=answers.parts,
        dry_run=not writes,
        files=reports(planned),
        next_steps=("fdl check",) if changed and writes else (),
    )
    code = _exit_code(planned, changed, check=options.check)
    return CommandResult(schema=schema, data=data, ok=code == 0, exit_code=code)


def project_root(cwd: Path) -> Path:
    """Return the nearest folder upwards that was made by `fdl init`.

    Raises:
        NotFoundError: there is none.
    """
    for folder in (cwd, *cwd.parents):
        if (folder / RECORD).is_file():
            return folder
    raise NotFoundError(
        error_id="scaffold-missing",
        message=f"`{cwd}` is not in a project made by `fdl init` (fdl {__version__})",
        hint="go to such a project, or make one: `fdl init my-proj`",
    )


def _exit_code(
    planned: tuple[PlannedFile, ...], changed: list[PlannedFile], *, check: bool
) -> int:
    if any(step.action == "conflict" for step in planned):
        return ConflictError.exit_code
    return 1 if check and changed else 0


def _require_clean(context: Context, root: Path) -> None:
    from fdl_cli.system.process import run

    try:
        done = run(
            ["git", "-C", root, "status", "--porcelain", "--untracked-files=no"],
            env=context.environ,
            timeout=30,
            check=False,
        )
    except FdlError:
        return  # without git there is nothing to compare with
    if done.returncode == 0 and done.stdout.strip():
        raise ConflictError(
            error_id="project-dirty",
            message=f"`{root}` has uncommitted changes, so an update could not be undone",
            hint="commit them first, or pass --allow-dirty",
        )
