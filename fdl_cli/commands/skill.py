"""`fdl skill`: install, update and remove the skills that teach assistants to use `fdl`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import (
    ConflictError,
    EnvironmentLackingError,
    OperationFailedError,
    UsageError,
)
from fdl_cli.result import CommandResult
from fdl_cli.skill.bundled import bundled_skills, find_skill
from fdl_cli.skill.lock import read_lock
from fdl_cli.skill.plan import (
    Action,
    SkillPlan,
    edited_files,
    installed_skill,
    plan_install,
    plan_remove,
)
from fdl_cli.skill.targets import TOOLS, Scope

DEFAULT = "flodl-port"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Whose skills to list."""

    user: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The skill, its tools, and how carefully."""

    name: str
    tools: tuple[str, ...]
    user: bool
    dry_run: bool
    force: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillState:
    """A bundled skill and its installations; no `installed_version`: there are none."""

    name: str
    description: str
    bundled_version: str
    installed_version: str | None
    tools: tuple[str, ...]
    edited: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ListData:
    """All bundled skills, as they are in one folder."""

    root: Path
    skills: tuple[SkillState, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFileReport:
    """One file and its action."""

    path: str
    action: Action
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeData:
    """The effect of a change, or with `dry_run` its plan."""

    name: str
    root: Path
    dry_run: bool
    files: tuple[SkillFileReport, ...]


def parse_list(
    *, user: Annotated[bool, typer.Option("--user", help="Those of your home folder.")] = False
) -> ListOptions:
    """List the skills of this fdl, and what is installed of them."""
    return ListOptions(user=user)


Name = Annotated[str, typer.Argument(help="The skill.")]
ForTools = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        metavar="TOOL",
        help="agents: .agents/skills and AGENTS.md (Codex, Copilot, Gemini ...); claude; cursor.",
    ),
]
User = Annotated[bool, typer.Option("--user", help="In your home folder, for all projects.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would change.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that you edited.")]


def parse_install(
    name: Name = DEFAULT,
    *,
    tools: ForTools = None,
    user: User = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> ChangeOptions:
    """Install a skill for assistants; without --for, for all of them.

    Files that you edited are never overwritten without --force.
    """
    return ChangeOptions(
        name=name,
        tools=tuple(tools or TOOLS),
        user=user,
        dry_run=dry_run,
        force=force,
    )


def parse_update(
    name: Name = DEFAULT, *, user: User = False, dry_run: DryRun = False, force: Force = False
) -> ChangeOptions:
    """Bring an installed skill to the version of this fdl."""
    return ChangeOptions(name=name, tools=(), user=user, dry_run=dry_run, force=force)


def parse_remove(
    name: Name = DEFAULT, *, user: User = False, dry_run: DryRun = False, force: Force = False
) -> ChangeOptions:
    """Remove an installed skill; files that you edited stop it, unless --force."""
    return ChangeOptions(name=name, tools=(), user=user, dry_run=dry_run, force=force)


def run_list(context: Context, options: ListOptions) -> CommandResult[ListData]:
    """Compare the bundled skills with the installed ones."""
    root = _root(context, user=options.user)
    installed = read_lock(root)
    states = []
    for skill in bundled_skills():
        item = installed.get(skill.name)
        states.append(
            SkillState(
                name=skill.name,
                description=skill.description,
                bundled_version=skill.version,
                installed_version=None if item is None else item.version,
                tools=() if item is None else item.tools,
                edited=() if item is None else edited_files(root, item),
            )
        )
    data = ListData(root=root, skills=tuple(states))
    return CommandResult(schema=LIST.schema, data=data)


def run_install(context: Context, options: ChangeOptions) -> CommandResult[ChangeData]:
    """Write the files of a skill.

    Raises:
        UsageError: a tool is unknown.
        NotFoundError: there is no such skill.
        ConflictError: a file was edited, or a newer version is installed.
    """
    unknown = [tool for tool in options.tools if tool not in TOOLS]
    if unknown:
        raise UsageError(
            error_id="skill-tool-unknown",
            message=f"`--for {unknown[0]}` names no tool that skills are known for",
            hint=f"one of: {', '.join(TOOLS)}; most assistants read `agents`",
        )
    root = _root(context, user=options.user)
    before = read_lock(root).get(options.name)
    kept = () if before is None else before.tools
    wanted = {*options.tools, *kept}
    if "cursor" in wanted:
        wanted.add("agents")  # the rule for cursor points to the files there
    tools = tuple(tool for tool in TOOLS if tool in wanted)
    plan = plan_install(
        root, find_skill(options.name), tools, _scope(options), force=options.force
    )
    return _carry_out(plan, options, INSTALL.schema)


def run_update(context: Context, options: ChangeOptions) -> CommandResult[ChangeData]:
    """Write the bundled version over the installed one.

    Raises:
        NotFoundError: it is not installed.
        ConflictError: a file was edited, or a newer version is installed.
    """
    root = _root(context, user=options.user)
    item = installed_skill(root, options.name)
    skill = find_skill(options.name)
    plan = plan_install(root, skill, item.tools, _scope(options), force=options.force)
    return _carry_out(plan, options, UPDATE.schema)


def run_remove(context: Context, options: ChangeOptions) -> CommandResult[ChangeData]:
    """Remove the files of a skill.

    Raises:
        NotFoundError: it is not installed.
        ConflictError: a file was edited.
    """
    root = _root(context, user=options.user)
    plan = plan_remove(root, options.name, force=options.force)
    return _carry_out(plan, options, REMOVE.schema)


def show_list(result: CommandResult[ListData], console: Console) -> None:
    """Print one line per skill."""
    for skill in result.data.skills:
        state = "not installed"
        if skill.installed_version is not None:
            state = f"{skill.installed_version} for {', '.join(skill.tools)}"
            if skill.installed_version != skill.bundled_version:
                state += f"; {skill.bundled_version} is here: `fdl skill update {skill.name}`"
        console.line(f"{skill.name}  {state}")
        console.paragraph(skill.description, indent="  ")
        for path in skill.edited:
            console.note(f"  edited: {path}")


def show_change(result: CommandResult[ChangeData], console: Console) -> None:
    """Print each file with its action, on stderr."""
    for file in result.data.files:
        if file.action != "same":
            reason = f"  ({file.reason})" if file.reason else ""
            console.note(f"{file.action:>8}  {file.path}{reason}")
    if all(file.action == "same" for file in result.data.files):
        console.note("every file is as it should be")
    if result.data.dry_run:
        console.note("nothing was written: this was a dry run")


def _carry_out(plan: SkillPlan, options: ChangeOptions, schema: str) -> CommandResult[ChangeData]:
    from fdl_cli.system.transaction import apply_changes

    if plan.conflicts and not options.dry_run:
        raise ConflictError(
            error_id="skill-files-edited",
            message="these files are not as fdl wrote them: " + ", ".join(plan.conflicts),
            hint="--dry-run lists all, --force overwrites them",
        )
    if not options.dry_run:
        try:
            apply_changes(plan.root, plan.changes())
        except OSError as problem:
            raise OperationFailedError(
                error_id="skill-write",
                message=f"cannot write the skill: {problem.strerror or problem}",
                hint="go to a folder that you may write, or install for yourself with --user",
                file=str(plan.root),
            ) from problem
    data = ChangeData(
        name=options.name,
        root=plan.root,
        dry_run=options.dry_run,
        files=tuple(
            SkillFileReport(path=step.path, action=step.action, reason=step.reason)
            for step in plan.steps
        ),
    )
    code = ConflictError.exit_code if plan.conflicts else 0
    return CommandResult(schema=schema, data=data, ok=code == 0, exit_code=code)


def _scope(options: ChangeOptions) -> Scope:
    return "user" if options.user else "project"


def _root(context: Context, *, user: bool) -> Path:
    if user:
        home = context.environ.get("HOME") or context.environ.get("USERPROFILE")
        if not home:
            raise EnvironmentLackingError(
                error_id="no-home",
                message="there is no home folder: neither HOME nor USERPROFILE is set",
                hint="install into a project instead, without --user",
            )
        return Path(home)
    if context.project_root is not None:
        return context.project_root
    for folder in (context.cwd, *context.cwd.parents):
        if (folder / ".git").exists():
            return folder
    return context.cwd


LIST = Command(
    schema="fdl.skill.list/1", data=ListData, parse=parse_list, run=run_list, show=show_list
)
INSTALL = Command(
    schema="fdl.skill.install/1",
    data=ChangeData,
    parse=parse_install,
    run=run_install,
    show=show_change,
)
UPDATE = Command(
    schema="fdl.skill.update/1",
    data=ChangeData,
    parse=parse_update,
    run=run_update,
    show=show_change,
)
REMOVE = Command(
    schema="fdl.skill.remove/1",
    data=ChangeData,
    parse=parse_remove,
    run=run_remove,
    show=show_change,
)
COMMAND = CommandGroup(
    summary="Skills that teach coding assistants to port and to look things up.",
    summaries={
        "list": "list the skills, and what is installed",
        "install": "install a skill into this project, or for the user",
        "update": "bring an installed skill to this version",
        "remove": "remove an installed skill",
    },
    commands={"list": LIST, "install": INSTALL, "update": UPDATE, "remove": REMOVE},
)
