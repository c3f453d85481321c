"""Setup of a project before its first task, so that `fdl init my-proj && cd my-proj && fdl train` works."""

import shlex
from pathlib import Path
from typing import Final

from fdl_cli.commands.task_context import surroundings
from fdl_cli.context import MANIFEST_NAME, Context
from fdl_cli.errors import (
    EnvironmentLackingError,
    FdlError,
    NeedsTerminalError,
    OperationFailedError,
)
from fdl_cli.manifest.model import Invocation
from fdl_cli.manifest.project import open_project
from fdl_cli.manifest.readiness import find_python, surely_has
from fdl_cli.manifest.request import Request
from fdl_cli.manifest.resolve import required
from fdl_cli.system.python_env import Environment, find_environment
from fdl_cli.torch_setup.install.own_wheel import (
    PROJECT,
    VENDOR,
    own_installation,
    put_wheel,
    vendored,
)
from fdl_cli.torch_setup.install.project_install import (
    Installable,
    install_project,
    read_installable,
)

SECONDS: Final = 60.0
# The packages that `fdl setup` installs without a project.
_WITH_TORCH: Final = frozenset({"torch", "numpy"})
# Prints the packages that this interpreter does not have, by their metadata or as modules.
_PROBE: Final = """\
import sys
from importlib import metadata
from importlib.util import find_spec

for name in sys.argv[1:]:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        if find_spec(name.replace("-", "_")) is None:
            print(name)
"""


def project_here(context: Context) -> Installable | None:
    """Return the project that `fdl setup` installs: one whose manifest says what its tasks require.

    Raises:
        FdlError: the manifest, or `pyproject.toml`, cannot be read.
    """
    if context.project_root is None:
        return None
    stored = open_project(surroundings(context), None).stored
    return read_installable(Path(stored.root)) if stored.tree.get("requires") else None


def missing_packages(
    context: Context, request: Request, invocation: Invocation
) -> tuple[str, ...]:
    """Return the packages that a task needs here and that its Python does not have."""
    packages = required(request.project.stored, request.found)
    if not packages or invocation.service is not None:
        return ()
    python = find_python(invocation, context.environ)
    if python is None or surely_has(python, packages):
        return () if python is not None else packages
    from fdl_cli.system.process import run

    environ = {**context.environ, **_changes(invocation)}
    folder = Path(invocation.folder)
    try:
        done = run(
            (python, "-c", _PROBE, *packages),
            cwd=folder if folder.is_dir() else None,
            env=environ,
            timeout=SECONDS,
        )
    except FdlError:
        return packages
    return tuple(done.stdout.split())


def set_up_first(
    context: Context, request: Request, missing: tuple[str, ...], python: str | None
) -> None:
    """Set the project up, after a question unless the answer is known to be yes.

    Where the environment has torch already, only the project is installed, with what it needs.

    Raises:
        EnvironmentLackingError: no project here brings what is missing.
        NeedsTerminalError: there is no terminal; the hint is the one command to type.
        OperationFailedError: the answer was no.
        FdlError: the setup failed.
    """
    name = " ".join(request.found.names)
    where = "and no Python was found" if python is None else f"which `{python}` does not have"
    problem = f"`fdl {name}` needs {_listed(missing)}, {where}"
    console = context.console
    stored = request.project.stored
    project = read_installable(Path(stored.root))
    if project is None and not _WITH_TORCH.issuperset(missing):
        raise EnvironmentLackingError(
            error_id="packages-missing",
            message=f"{problem}, and no pyproject.toml beside {MANIFEST_NAME} describes a project "
            "to install",
            hint=f"write one, or install them: `{python or 'python'} -m pip install "
            f"{shlex.join(missing)}`",
            file=str(Path(stored.root) / MANIFEST_NAME),
        )
    if not (request.flags.yes or console.assume_yes):
        if not console.interactive:
            raise NeedsTerminalError(
                error_id="not-set-up",
                message=problem,
                hint=f"`{_command(request)}` sets the project up first",
            )
        if not console.confirm(f"{problem}. Set the project up now?", flag="-y", default=True):
            raise OperationFailedError(
                error_id="declined",
                message="nothing was run",
                hint="`fdl setup` sets the project up, `fdl setup --dry-run` says how",
            )
    from fdl_cli.torch_setup.setup_command import perform_setup, request_of
    from fdl_cli.torch_setup.setup_data import SetupOptions

    named = stored.tree.get("venv")
    env = Path(stored.root, named) if isinstance(named, str) else None
    options = SetupOptions(yes=True, env=env)
    environment = find_environment(env, (Path(stored.root),), context.environ)
    if project is not None and "torch" not in missing and _is_in(python, environment):
        # The torch there stays as it is: a newer build may exist, and is not what is missing.
        install_project(project, environment.folder, request_of(options), console)
        return
    console.note("setting the project up: the torch that fits this machine, and all that it needs")
    result = perform_setup(context, options, project, again=True)
    for notice in result.warnings:
        console.warning(notice)


def require_packages(request: Request, missing: tuple[str, ...], python: str | None) -> None:
    """Refuse to run a task that lacks packages even after the setup.

    Raises:
        EnvironmentLackingError: some are missing.
    """
    if missing:
        raise EnvironmentLackingError(
            error_id="packages-missing",
            message=f"the project is set up, and `{python}` still lacks {_listed(missing)}",
            hint="add them to the dependencies in pyproject.toml, or correct `requires` in "
            f"{MANIFEST_NAME}",
            file=str(Path(request.project.stored.root) / MANIFEST_NAME),
        )


def prepare_image(context: Context, request: Request) -> None:
    """Put the wheel of flodl where the image of a service installs from, if no index has it."""
    root = Path(request.project.stored.root)
    own = own_installation()
    if PROJECT not in required(request.project.stored, request.found):
        return
    if own is None or own.from_index or vendored(root) is not None:
        return
    wheel = put_wheel(root, own, context.console)
    context.console.note(f"{VENDOR}/{wheel.name}: the image installs {PROJECT} from it; commit it")


def _is_in(python: str | None, environment: Environment) -> bool:
    """Return True if a Python is that of an environment."""
    if python is None or environment.kind == "missing":
        return False
    return Path(python).parent.parent.resolve() == environment.folder.resolve()


def _command(request: Request) -> str:
    flags = request.flags
    overlay = request.project.stored.environment
    words = ["fdl", "-y", *(["--env", overlay] if overlay else [])]
    words += [f"--{flags.place}"] if flags.place is not None else []
    words += [] if flags.append else ["--no-append"]
    words += ["--wait"] if flags.wait else []
    return shlex.join([*words, *request.words])


def _changes(invocation: Invocation) -> dict[str, str]:
    return {each.name: each.value for each in invocation.changes if each.value is not None}


def _listed(packages: tuple[str, ...]) -> str:
    if len(packages) == 1:
        return packages[0]
    return f"{', '.join(packages[:-1])} and {packages[-1]}"
