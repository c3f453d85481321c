"""Installation of the project that `fdl setup` runs in: itself in place, flodl, and the tools of `dev`.

Example:
    In a project of `fdl init`, after torch is proved:
        pip install -c torch-constraints.txt -c constraints.txt --find-links vendor
            vendor/flodl-0.1.0-py3-none-any.whl -e .[dev]
    `.venv/fdl-project.json` then says for what that was done, so that the next setup has nothing to
    do until the dependencies, the lock file or this tool change.
"""

import hashlib
import json
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.console import Console
from fdl_cli.context import LOCK_NAME
from fdl_cli.errors import ConfigError, EnvironmentLackingError, OperationFailedError
from fdl_cli.system.process import run
from fdl_cli.system.python_env import Environment, environment_at
from fdl_cli.torch_setup.install.dependency_lock import write_lock
from fdl_cli.torch_setup.install.installed import read_installed, site_packages
from fdl_cli.torch_setup.install.own_wheel import (
    PROJECT,
    VENDOR,
    OwnInstallation,
    own_installation,
    put_wheel,
    record_digest,
    vendored,
    wheel_digest,
)
from fdl_cli.torch_setup.install.pip_tool import (
    Pip,
    configured_links,
    find_pip,
    pip_causes,
    without_credentials,
)
from fdl_cli.torch_setup.project_files import CONSTRAINTS, write_atomically
from fdl_cli.torch_setup.setup_data import Action, LockData, SetupRequest

RECORD_NAME: Final = "fdl-project.json"
SCHEMA: Final = "fdl.project-record/1"
SECONDS: Final = 1800.0
_EXTRA: Final = "dev"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Installable:
    """A project that pip can install.

    Attributes:
        root: its folder.
        name: its name.
        extra: whether it has an extra for development.
        digest: changes with what it needs, and with this tool.
    """

    root: Path
    name: str
    extra: bool
    digest: str

    @property
    def requirement(self) -> str:
        """Return the requirement that pip installs from the project's folder."""
        return f".[{_EXTRA}]" if self.extra else "."

    def actions(self, *, lock: bool = False) -> tuple[Action, ...]:
        """Return the steps of the installation; with `lock`, of the newest versions."""
        files = [
            CONSTRAINTS,
            *([LOCK_NAME] if not lock and (self.root / LOCK_NAME).is_file() else []),
        ]
        words = [
            "pip install",
            *(["--upgrade"] if lock else []),
            *(f"-c {each}" for each in files),
        ]
        detail = f"{self.name}: {' '.join(words)} -e {self.requirement}"
        steps = (Action(kind="install-project", detail=detail),)
        return (*steps, Action(kind="lock", detail=str(self.root / LOCK_NAME))) if lock else steps


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInstalled:
    """The files that the installation of a project wrote, and the lock file if one was wanted."""

    written: tuple[str, ...]
    lock: LockData | None


def read_installable(root: Path) -> Installable | None:
    """Return the project in a folder; nothing if its `pyproject.toml` describes none.

    Raises:
        ConfigError: `pyproject.toml` is no TOML.
    """
    path = root / "pyproject.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(
            error_id="pyproject-invalid",
            message=f"it cannot be read: {problem}",
            hint="correct it, then run `fdl setup` again",
            file=str(path),
        ) from problem
    project = document.get("project")
    if not isinstance(project, dict) or "name" not in project:
        return None
    extras = project.get("optional-dependencies", {})
    own = own_installation()
    needs = [
        project.get("dependencies", []), extras.get(_EXTRA, []), document.get("build-system", {}),
        None if own is None else (own.distribution.version, own.digest),
        (root / LOCK_NAME).read_text("utf-8", "replace") if (root / LOCK_NAME).is_file() else None,
    ]  # fmt: skip
    return Installable(
        root=root,
        name=str(project["name"]),
        extra=_EXTRA in extras,
        digest=hashlib.sha256(json.dumps(needs).encode()).hexdigest()[:16],
    )


def is_installed(project: Installable, environment: Environment) -> bool:
    """Return True if an environment holds a project as it is now."""
    return _record(environment).get(str(project.root)) == project.digest


def install_project(
    project: Installable, folder: Path, request: SetupRequest, console: Console
) -> ProjectInstalled:
    """Install a project into the environment in a folder, in the versions of its lock file.

    With `request.lock` the newest versions are installed, and the lock file is written.

    Raises:
        FdlError: pip cannot install it, or flodl is not available.
    """
    environment = environment_at(folder, "")
    pip = find_pip(environment)
    wheel, written = _flodl(project.root, request, pip, console)
    links = [each.absolute() for each in request.find_links]
    if wheel is not None:
        links.append(wheel.parent)
    words: list[str | Path] = [*pip.words, "install", "--disable-pip-version-check", "--no-input"]
    words.append("--quiet")
    more: list[str | Path] = ["--no-index"] if request.offline else []
    more += ["--proxy", request.proxy] if request.proxy is not None else []
    for link in links:
        more += ["--find-links", link]
    wanted = wheel if wheel is not None and not _is_own(environment) else None
    console.note(f"installing {project.name}, with all that it needs, into {folder}")
    own = [] if wanted is None else [wanted]
    with tempfile.TemporaryDirectory(prefix="fdl-lock-") as scratch:
        kept = _versions(project.root, environment, request, Path(scratch))
        _install(project, [*words, *kept, *more, *own, "-e", project.requirement], console)
    if wanted is not None and _installed_flodl(environment) != wheel_digest(wanted):
        # pip keeps an installed package of the same version, even if the wheel holds other files.
        _install(
            project, [*words, "--no-index", "--no-deps", "--force-reinstall", wanted], console
        )
    lock = None
    if request.lock:
        lock = write_lock(project.root, _EXTRA if project.extra else None, pip)
        written = (*written, lock.path)
        project = read_installable(project.root) or project
    return ProjectInstalled(written=(*written, _write_record(project, environment)), lock=lock)


def _versions(
    root: Path, environment: Environment, request: SetupRequest, scratch: Path
) -> list[str | Path]:
    """Return the options of pip that decide about versions."""
    chosen = [CONSTRAINTS] if (root / CONSTRAINTS).is_file() else []
    if not request.lock:
        # Without the first file, `fdl setup` has not chosen the torch; pip keeps one that satisfies
        # the project.
        files = [*chosen, *([LOCK_NAME] if (root / LOCK_NAME).is_file() else [])]
        return [word for file in files for word in ("-c", file)]
    options: list[str | Path] = ["--upgrade", "--upgrade-strategy", "eager"]
    torch = read_installed(environment)
    if not chosen and torch is not None:  # an upgrade would take a newer one
        path = scratch / CONSTRAINTS
        path.write_text(f"torch=={torch.version}\n", encoding="utf-8")
        return [*options, "-c", path]
    return [*options, *(word for file in chosen for word in ("-c", file))]


def _install(project: Installable, command: list[str | Path], console: Console) -> None:
    done = run(
        command,
        cwd=project.root,
        timeout=SECONDS,
        check=False,
        echo=lambda text: console.echo(without_credentials(text)),
    )
    locked = LOCK_NAME in command
    if done.returncode != 0:
        raise OperationFailedError(
            error_id="project-not-installed",
            message=f"torch is in place, and pip cannot install {project.name}",
            hint="see the causes; `pip config list` shows the indexes, `--find-links DIR` adds wheels"
            + (f"; `fdl setup --lock` takes other versions than {LOCK_NAME}" if locked else ""),
            causes=pip_causes(done.stderr),
        )


def _installed_flodl(environment: Environment) -> str | None:
    """Return the digest of the flodl in an environment."""
    for folder in site_packages(environment):
        for record in folder.glob(f"{PROJECT}-*.dist-info/RECORD"):
            return record_digest(record.read_text(encoding="utf-8"))
    return None


def _flodl(
    root: Path, request: SetupRequest, pip: Pip, console: Console
) -> tuple[Path | None, tuple[str, ...]]:
    """Return the wheel of flodl in `vendor/`, and the written files; no wheel where an index has it."""
    own = own_installation()
    if own is None:
        held = vendored(root)
        if held is None:
            console.note(f"fdl is not installed itself, so {PROJECT} has to come from an index")
        return held, ()
    if own.from_index and _is_offered(own, request, pip):
        return None, ()
    before = vendored(root)
    wheel = put_wheel(root, own, console)
    if before is None:
        console.note(f"no index has this {PROJECT}: {VENDOR}/{wheel.name} serves the project, "
                     "its image and its CI; commit it")  # fmt: skip
    return wheel, (str(wheel),)


def _is_offered(own: OwnInstallation, request: SetupRequest, pip: Pip) -> bool:
    """Return True if folders of wheels or pip's indexes have this version of flodl."""
    version = own.distribution.version
    if any(list(folder.glob(f"{PROJECT}-{version}-*.whl")) for folder in request.find_links):
        return True
    if request.offline:
        return False
    try:
        links = configured_links(pip, PROJECT)
    except EnvironmentLackingError:
        return False
    starts = (f"{PROJECT}-{version}-", f"{PROJECT}-{version}.tar")
    return any(link.name.startswith(starts) for link in links)


def _is_own(environment: Environment) -> bool:
    """Return True for the environment that runs this tool, whose flodl is the right one already."""
    import sys

    return environment.folder.resolve() == Path(sys.prefix).resolve()


def _record(environment: Environment) -> Mapping[str, Any]:
    try:
        document = json.loads((environment.folder / RECORD_NAME).read_text(encoding="utf-8"))
        projects = document["projects"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return projects if isinstance(projects, dict) else {}


def _write_record(project: Installable, environment: Environment) -> str:
    projects = {**_record(environment), str(project.root): project.digest}
    text = json.dumps({"schema": SCHEMA, "projects": projects}, indent=1) + "\n"
    path = environment.folder / RECORD_NAME
    write_atomically(path, text.encode())
    return str(path)
