"""The Python environment that torch belongs into, and its interpreter."""

import platform
import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

from fdl_cli.system.facts import PythonFacts
from fdl_cli.system.process import run

EnvironmentKind = Literal["venv", "conda", "prefix", "missing"]

_DESCRIBE: Final = (
    "import sys,sysconfig,platform;"
    "t='t' if sysconfig.get_config_var('Py_GIL_DISABLED') else '';"
    "print(platform.python_implementation().lower(),"
    "f'{sys.version_info[0]}.{sys.version_info[1]}{t}',sys.prefix,sep='\\n')"
)
INTERPRETER_SECONDS: Final = 20.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One environment folder; of kind `missing` when it would have to be created."""

    folder: Path
    kind: EnvironmentKind
    why: str

    @property
    def interpreter(self) -> Path:
        """Return where the interpreter is, or will be."""
        if sys.platform == "win32":
            inside = "python.exe" if self.kind == "conda" else "Scripts/python.exe"
            return self.folder / inside
        return self.folder / "bin" / "python"


def find_environment(
    named: Path | None, roots: tuple[Path, ...], environ: Mapping[str, str]
) -> Environment:
    """Choose the environment: the named one, the project's, the active one, else a new one.

    The project's own `.venv` comes before an activated environment, as with uv: a shell in
    which something else is active must not decide what a project uses.
    """
    if named is not None:
        return environment_at(named, "named on the command line")
    for root in roots:
        if (root / ".venv" / "pyvenv.cfg").is_file():
            return environment_at(root / ".venv", "the project's own environment")
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = environ.get(variable)
        if value and Path(value).is_dir():
            return environment_at(Path(value), f"active in this shell ({variable})")
    return Environment(folder=roots[0] / ".venv", kind="missing", why="no environment found here")


def read_python(environment: Environment) -> PythonFacts:
    """Return the interpreter's facts, if possible without starting it: that is slow."""
    if environment.kind == "missing":
        return this_python()
    return _from_configuration(environment) or _from_interpreter(environment)


def read_interpreter(interpreter: Path) -> PythonFacts:
    """Return the facts of an interpreter outside of any environment, by starting it.

    Raises:
        FdlError: it cannot be started.
    """
    return _ask(interpreter, virtual=False)


def this_python() -> PythonFacts:
    """Return the facts of the interpreter that runs `fdl`."""
    threaded = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return PythonFacts(
        version=f"{sys.version_info[0]}.{sys.version_info[1]}{threaded}",
        implementation=platform.python_implementation().lower(),
        executable=sys.executable,
        prefix=sys.prefix,
        virtual=sys.prefix != sys.base_prefix,
    )


def environment_at(folder: Path, why: str) -> Environment:
    """Return the environment in a folder, of kind `missing` where there is none."""
    absolute = folder.absolute()
    kind: EnvironmentKind = "prefix"
    if not (absolute / "bin").is_dir() and not (absolute / "Scripts").is_dir():
        kind = "missing"
    elif (absolute / "pyvenv.cfg").is_file():
        kind = "venv"
    elif (absolute / "conda-meta").is_dir():
        kind = "conda"
    return Environment(folder=absolute, kind=kind, why=why)


def _from_configuration(environment: Environment) -> PythonFacts | None:
    try:
        text = (environment.folder / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return None
    values = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))
    number = values.get("version_info") or values.get("version") or ""
    found = re.match(r"(\d+)\.(\d+)", number)
    if found is None:
        return None
    version = f"{found.group(1)}.{found.group(2)}"
    free_threaded = (environment.folder / "lib" / f"python{version}t").is_dir()
    return PythonFacts(
        version=version + ("t" if free_threaded else ""),
        implementation=values.get("implementation", "cpython").lower(),
        executable=str(environment.interpreter),
        prefix=str(environment.folder),
        virtual=True,
    )


def _from_interpreter(environment: Environment) -> PythonFacts:
    return _ask(environment.interpreter, virtual=environment.kind == "venv")


def _ask(interpreter: Path, *, virtual: bool) -> PythonFacts:
    done = run((interpreter, "-I", "-c", _DESCRIBE), timeout=INTERPRETER_SECONDS)
    implementation, version, prefix = done.stdout.splitlines()[:3]
    return PythonFacts(
        version=version,
        implementation=implementation,
        executable=str(interpreter),
        prefix=prefix,
        virtual=virtual,
    )
