"""Lock file of a project: the exact versions of all that it needs, but torch and flodl.

Example:
    `fdl init` writes `constraints.txt` with the versions that this fdl was tested with:
        numpy==2.4.6
        pytest==9.2.0
    `fdl setup`, the image and the CI of the project install these. `fdl setup --lock` installs the
    newest versions that `pyproject.toml` allows, and writes them there.

The file is one of pip's constraints: https://pip.pypa.io/en/stable/user_guide/#constraints-files.
The build of torch depends on the machine, so `torch-constraints.txt` keeps it, and what torch alone
needs follows it. The version of flodl is that of the tool: its wheel, or the range in `pyproject.toml`.
"""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from fdl_cli.context import LOCK_NAME
from fdl_cli.errors import OperationFailedError
from fdl_cli.system.process import run
from fdl_cli.torch_setup.install.pip_tool import Pip, pip_causes
from fdl_cli.torch_setup.project_files import write_atomically
from fdl_cli.torch_setup.setup_data import LockData, VersionChange

if TYPE_CHECKING:
    from packaging.requirements import Requirement

LEFT_OUT: Final = frozenset({"flodl", "torch"})
_TORCH: Final = frozenset({"torch"})
SECONDS: Final = 120.0
HEADER: Final = """\
# The exact versions that this project is installed with. `fdl setup --lock` takes newer ones and
# writes this file; commit it. torch is chosen for each machine (torch-constraints.txt), and the
# version of flodl is that of fdl.
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One installed distribution: its version, and its requirements as its metadata writes them."""

    version: str
    requires: tuple[str, ...]


Find = Callable[[str], Distribution]


def closure(
    roots: Iterable["Requirement"],
    find: Find,
    environment: Mapping[str, str],
    unfollowed: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Return name -> version of some requirements, and of everything that they need.

    Names are normalised as PEP 503 has it, versions come without a local part. `find` returns
    the distribution of a normalised name, `environment` gives the values of markers, and the
    needs of the `unfollowed` are left out.

    Raises:
        ValueError: an installed version is outside of a requirement.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins: dict[str, str] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    todo = [root for root in roots if _applies(root, environment, frozenset())]
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        held = find(name)
        version = held.version.partition("+")[0]
        if not requirement.specifier.contains(version, prereleases=True):
            raise ValueError(f"{name} {version} is installed, and {requirement} is required")
        pins[name] = version
        if (name, extras) in done or name in unfollowed:
            continue
        done.add((name, extras))
        needs = map(Requirement, held.requires)
        todo += [need for need in needs if _applies(need, environment, extras)]
    return pins


def _applies(
    requirement: "Requirement", environment: Mapping[str, str], extras: frozenset[str]
) -> bool:
    marker = requirement.marker
    return marker is None or any(
        marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)
    )


def lock_text(pins: Mapping[str, str]) -> str:
    """Return the text of the lock file of a project.

    Example:
        >>> print(lock_text({"numpy": "2.4.6", "torch": "2.13.0"}).splitlines()[-1])
        numpy==2.4.6
    """
    lines = [f"{name}=={pins[name]}\n" for name in sorted(pins.keys() - LEFT_OUT)]
    return HEADER + "".join(lines)


def write_lock(root: Path, extra: str | None, pip: Pip) -> LockData:
    """Write the versions that an environment holds for a project, and return what changed.

    `extra` is the extra of the project that is installed too, for development.

    Raises:
        OperationFailedError: pip cannot list the environment, or its packages do not fit.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project.get("dependencies", [])]
    texts += [] if extra is None else project["optional-dependencies"][extra]
    pins = _installed_pins(map(Requirement, texts), pip)
    own = canonicalize_name(project["name"])  # `dev = ["mine[plots]"]` names the project itself
    text = lock_text({name: pins[name] for name in pins if name != own})
    path = root / LOCK_NAME
    before, after = read_lock(root), _pins(text)
    write_atomically(path, text.encode())
    changed = tuple(
        VersionChange(name=name, before=before.get(name), after=after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
    return LockData(path=str(path), count=len(after), changed=changed)


def _installed_pins(roots: Iterable["Requirement"], pip: Pip) -> dict[str, str]:
    from packaging.utils import canonicalize_name

    document = _inspect(pip)
    held: dict[str, Distribution] = {
        canonicalize_name(item["metadata"]["name"]): Distribution(
            version=item["metadata"]["version"],
            requires=tuple(item["metadata"].get("requires_dist", ())),
        )
        for item in document["installed"]
    }
    try:
        return closure(roots, held.__getitem__, document["environment"], _TORCH)
    except (KeyError, ValueError) as problem:
        raise OperationFailedError(
            error_id="lock-failed",
            message=f"the packages of the environment do not fit each other, so none are locked: {problem}",
            hint=f"`{pip.interpreter} -m pip check` names them; a new environment is a way out",
        ) from problem


def read_lock(root: Path) -> dict[str, str]:
    """Return name -> version of a project's lock file; nothing without one."""
    try:
        return _pins((root / LOCK_NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError):
        return {}


def _pins(text: str) -> dict[str, str]:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    pairs = [line.partition("==") for line in lines if "==" in line]
    return {name.strip(): version.strip() for name, _, version in pairs}


def _inspect(pip: Pip) -> dict[str, Any]:
    """Return the answer of `pip inspect`: https://pip.pypa.io/en/stable/reference/inspect-report/."""
    words = (*pip.words, "inspect", "--disable-pip-version-check", "--no-input")
    done = run(words, timeout=SECONDS, check=False)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError as problem:
        raise OperationFailedError(
            error_id="lock-failed",
            message="the project is installed, and pip cannot list its versions, so none are locked",
            hint="update pip in the environment: `python -m pip install --upgrade pip`",
            causes=pip_causes(done.stderr),
        ) from problem
    return document
