"""`fdl install`: make `fdl` a command in every shell, check that it still is, or undo it."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final

import typer

from fdl_cli import __version__
from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import ConflictError, Notice, OperationFailedError, UsageError
from fdl_cli.result import CommandResult
from fdl_cli.system.launcher import (
    Launcher,
    launcher_name,
    launcher_place,
    launcher_text,
    read_launcher,
)

Action = Literal["create", "update", "same", "remove", "absent"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """The place of the launcher, the program it starts, and the action on it."""

    to: Path | None
    dev: bool
    check: bool
    online: bool
    remove: bool
    dry_run: bool
    force: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InstallData:
    """The launcher and its target, and the `fdl` that a shell would find.

    `newest` is the newest version on pip's indexes, null when it was not requested.
    """

    path: Path
    action: Action
    dry_run: bool
    version: str
    target: str
    found_on_path: Path | None
    newest: str | None
    todo: str


def parse(
    *,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="The folder, instead of ~/.local/bin."),
    ] = None,
    dev: Annotated[
        bool, typer.Option("--dev", help="Start this checkout: edits take effect at once.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if there is something to do.")
    ] = False,
    online: Annotated[
        bool, typer.Option("--online", help="With --check: also ask pip's indexes for an update.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the launcher away.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be written; write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a program that is not a launcher of fdl.")
    ] = False,
) -> InstallOptions:
    """Make fdl a command in every shell: a small launcher that starts this very fdl.

    Nothing is copied and no network is used, except for --check --online.
    """
    return InstallOptions(
        to=to,
        dev=dev,
        check=check,
        online=online,
        remove=remove,
        dry_run=dry_run,
        force=force,
    )


def run(context: Context, options: InstallOptions) -> CommandResult[InstallData]:
    """Write, check or remove the launcher.

    Raises:
        UsageError: the options contradict each other, or there is no home or no checkout.
        ConflictError: a program that is not ours is in the way.
        OperationFailedError: the folder cannot be written.
        EnvironmentLackingError: the indexes cannot be queried.
    """
    _check_options(options)
    windows = sys.platform == "win32"
    path = _place(context, options, windows=windows)
    launcher = _wanted(options)
    text = launcher_text(launcher, windows=windows)
    action = _action(path, text, options)
    if not (options.dry_run or options.check):
        _carry_out(path, text, action)
    found = shutil.which("fdl", path=context.environ.get("PATH", ""))
    there = read_launcher(path)
    shown = there if options.check and there is not None else launcher
    newest = _newest() if options.online else None
    data = InstallData(
        path=path,
        action=action,
        dry_run=options.dry_run or options.check,
        version=shown.version,
        target=shown.target,
        found_on_path=None if found is None else Path(found),
        newest=newest,
        todo=_todo(context, path, options, newest),
    )
    lacking = options.check and (action != "same" or bool(data.todo))
    return CommandResult(
        schema=COMMAND.schema,
        data=data,
        ok=not lacking,
        exit_code=OperationFailedError.exit_code if lacking else 0,
        warnings=_warnings(path, options, data),
    )


def show(result: CommandResult[InstallData], console: Console) -> None:
    """Print the result and the steps that are left to do."""
    data = result.data
    console.note(f"{data.action:>8}  {data.path} -> {data.target} ({data.version})")
    if data.dry_run:
        console.note("nothing was written")
    if data.newest is not None:
        console.note(f"the newest version on the indexes is {data.newest}; this is {__version__}")
    if data.todo:
        console.line(data.todo)


def _check_options(options: InstallOptions) -> None:
    wrong = ""
    if options.check and (options.remove or options.force or options.dry_run):
        wrong = "--check changes nothing, so it goes with neither --remove, --force nor --dry-run"
    elif options.online and not options.check:
        wrong = "--online belongs to --check"
    elif options.remove and options.dev:
        wrong = "--dev says what to install, and --remove takes it away"
    if wrong:
        raise UsageError(error_id="install-usage", message=wrong, hint="see `fdl install --help`")


def _place(context: Context, options: InstallOptions, *, windows: bool) -> Path:
    if options.to is not None:
        return (context.cwd / options.to).resolve() / launcher_name(windows=windows)
    home = Path(context.environ.get("HOME") or context.environ.get("USERPROFILE") or "")
    if not home.is_absolute():
        raise UsageError(
            error_id="no-home",
            message="there is no home folder: neither HOME nor USERPROFILE is set",
            hint="name a folder that is on PATH: `fdl install --to DIR`",
        )
    return launcher_place(context.environ, home, windows=windows)


def _wanted(options: InstallOptions) -> Launcher:
    if not options.dev:
        # Not resolved: the Python of a venv is a link, and only the link has the packages.
        return Launcher(
            mode="environment", version=__version__, target=str(Path(sys.executable).absolute())
        )
    script = Path(__file__).resolve().parents[2] / "fdl"
    if not script.is_file() or not (script.parent / "pyproject.toml").is_file():
        raise UsageError(
            error_id="install-no-checkout",
            message="--dev is for a checkout of flodl, and this fdl was installed from a package",
            hint="`fdl install` starts the fdl of this environment",
        )
    return Launcher(mode="checkout", version=__version__, target=str(script))


def _action(path: Path, text: str, options: InstallOptions) -> Action:
    if not os.path.lexists(path):
        return "absent" if options.remove else "create"
    ours = read_launcher(path)
    if ours is None and not (options.force or options.check):
        raise ConflictError(
            error_id="install-foreign",
            message=f"`{path}` exists and is not a launcher of fdl",
            hint="move it away, choose another folder with --to DIR, or pass --force",
            file=str(path),
        )
    if options.remove:
        return "remove"
    return "same" if ours is not None and path.read_bytes() == text.encode() else "update"


def _carry_out(path: Path, text: str, action: Action) -> None:
    from fdl_cli.system.atomic import write_whole

    try:
        if action in ("create", "update"):
            write_whole(path, text.encode(), executable=True)
            path.chmod(path.stat().st_mode | 0o111)
        elif action == "remove":
            path.unlink(missing_ok=True)
    except OSError as problem:
        raise OperationFailedError(
            error_id="install-write",
            message=f"cannot write `{path}`: {problem.strerror}",
            hint="name a folder that you may write: `fdl install --to DIR`",
            file=str(path),
        ) from problem


def _todo(context: Context, path: Path, options: InstallOptions, newest: str | None) -> str:
    if options.remove:
        return ""
    if newest is not None and _is_newer(newest):
        return "python -m pip install --upgrade 'flodl[cli]'"
    folders = context.environ.get("PATH", "").split(os.pathsep)
    if str(path.parent) not in folders:
        return f'export PATH="{path.parent}:$PATH"'
    return ""


def _warnings(path: Path, options: InstallOptions, data: InstallData) -> tuple[Notice, ...]:
    first = data.found_on_path
    if options.remove or first is None or first.parent == path.parent:
        return ()
    return (
        Notice(
            id="install-hidden",
            message=f"a shell here finds `{first}` first, not `{path}`",
            hint="put its folder earlier in PATH, or open a shell without an active environment",
        ),
    )


def _newest() -> str | None:
    """Return the newest release on the indexes that pip is configured with."""
    from packaging.version import InvalidVersion, Version

    from fdl_cli.net.simple_index import parse_wheel_name
    from fdl_cli.torch_setup.install.pip_tool import Pip, configured_links

    pip = Pip(words=(sys.executable, "-m", "pip"), interpreter=Path(sys.executable))
    found: list[Version] = []
    for link in configured_links(pip, "flodl"):
        wheel = parse_wheel_name(link.name)
        try:
            if wheel is not None and wheel.project == "flodl":
                found.append(Version(wheel.version))
        except InvalidVersion:
            continue
    released = [version for version in found if not version.is_prerelease]
    return str(max(released)) if released else None


def _is_newer(newest: str) -> bool:
    from packaging.version import Version

    return Version(newest) > Version(__version__)


COMMAND = Command(schema="fdl.install/1", data=InstallData, parse=parse, run=run, show=show)
