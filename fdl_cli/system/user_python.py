"""The user's Python: the interpreter with torch, in which every command does its work on models.

Before: `fdl` from pipx, a project whose `.venv` has torch
After:  `.venv/bin/python`, with the `flodl` of the tool where the environment has none
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.context import Context
from fdl_cli.errors import EnvironmentLackingError, UsageError
from fdl_cli.system.process import run
from fdl_cli.system.python_env import Environment, environment_at, find_environment

START: Final = Path(__file__).with_name("runtime_start.py")
OLDEST: Final = (3, 11)
SECONDS: Final = 60.0
_PROBE: Final = (
    "import sys, importlib.util as u; "
    "print(*sys.version_info[:2], int(u.find_spec('torch') is not None))"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserPython:
    """An interpreter, and why it was chosen."""

    interpreter: Path
    why: str

    def runtime_command(self, module: str, *arguments: str | Path) -> tuple[str, ...]:
        """Return the command that runs a module of flodl, the tool's where this Python has none."""
        words = ("-P", START, os.pathsep.join(_beside()), module, *arguments)
        return (str(self.interpreter), *map(str, words))


def user_python(context: Context, named: Path | None = None) -> UserPython:
    """Return the Python for a command; see `find_user_python`.

    Raises:
        UsageError: `--python` names nothing that could be an interpreter.
    """
    roots = (context.project_root or context.cwd, context.cwd)
    absolute = None if named is None else context.cwd / named
    return find_user_python(absolute, tuple(dict.fromkeys(roots)), context.environ)


def find_user_python(
    named: Path | None, roots: tuple[Path, ...], environ: Mapping[str, str]
) -> UserPython:
    """Choose the Python: the named one, the project's, the active one, else that of the tool itself.

    Args:
        named: the value of `--python`: an interpreter, or the folder of an environment.
        roots: the folders that may hold the project's `.venv`.
        environ: the variables, of which `VIRTUAL_ENV` and `CONDA_PREFIX` name an active environment.

    Raises:
        UsageError: there is no such interpreter.
    """
    if named is not None:
        return _named(named)
    environment = find_environment(None, roots, environ)
    if environment.kind != "missing" and environment.interpreter.exists():
        return UserPython(interpreter=environment.interpreter, why=environment.why)
    return UserPython(interpreter=Path(sys.executable), why="the Python of fdl itself")


def package_folders(interpreter: Path) -> tuple[Path, ...]:
    """Return the folders of an interpreter's installed packages, found without starting it.

    Example:
        >>> import sys
        >>> any((folder / "typer").is_dir() for folder in package_folders(Path(sys.executable)))
        True
    """
    # Not resolved: the interpreter of an environment is a link to another one's.
    prefix = interpreter.parent if sys.platform == "win32" else interpreter.parent.parent
    patterns = ("lib/python3.*/site-packages", "lib/python3/dist-packages", "Lib/site-packages")
    return tuple(each for pattern in patterns for each in sorted(prefix.glob(pattern)))


def named_environment(named: Path) -> Environment:
    """Return the environment that `--python` names by its interpreter or by its folder.

    Raises:
        UsageError: there is no such interpreter.
    """
    interpreter = _named(named).interpreter
    return environment_at(
        interpreter.parent if sys.platform == "win32" else interpreter.parent.parent,
        "named with `--python`",
    )


def require_torch(python: UserPython, purpose: str) -> None:
    """Refuse a Python that cannot run the runtime.

    Raises:
        EnvironmentLackingError: it is too old or has no torch; the message names it.
    """
    done = run((python.interpreter, "-c", _PROBE), timeout=SECONDS, cwd=Path(os.sep), check=False)
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 3:
        lines = done.stderr.strip().splitlines()
        raise EnvironmentLackingError(
            error_id="python-broken",
            message=f"`{python.interpreter}` ({python.why}) does not run: "
            f"{lines[-1] if lines else f'exit code {done.returncode}'}",
            hint="name another one with `--python`",
        )
    version = int(words[0]), int(words[1])
    if version < OLDEST:
        raise EnvironmentLackingError(
            error_id="python-too-old",
            message=f"`{python.interpreter}` ({python.why}) is Python {version[0]}.{version[1]}; "
            f"flodl needs {OLDEST[0]}.{OLDEST[1]} or newer",
            hint="name another one with `--python`",
        )
    if words[2] != "1":
        raise EnvironmentLackingError(
            error_id="torch-missing",
            message=f"{purpose} needs torch, which `{python.interpreter}` ({python.why}) does not have",
            hint="install it with `fdl setup`, or name another Python with `--python`",
        )


def _beside() -> tuple[str, ...]:
    """Return the folders in which the tool has the runtime and the package that it needs besides torch."""
    specs = [importlib.util.find_spec(name) for name in ("flodl", "xxhash")]
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return tuple(dict.fromkeys(str(Path(origin).parents[1]) for origin in origins))


def _named(named: Path) -> UserPython:
    interpreter = environment_at(named, "").interpreter if named.is_dir() else named
    if not interpreter.is_file():
        raise UsageError(
            error_id="python-not-found",
            message=f"`--python {named}` names neither an interpreter nor an environment",
            hint="name a program, such as `.venv/bin/python`, or the folder of an environment",
        )
    # Not resolved: the link in an environment makes it that environment's interpreter.
    return UserPython(interpreter=interpreter.absolute(), why="named with `--python`")
