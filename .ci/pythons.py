"""The Pythons of this machine: on PATH, installed by uv or pyenv, or in the cache of the suite."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

FACTS = (
    "import json, sys; print(json.dumps([sys.implementation.name, list(sys.version_info[:3])]))"
)
HOME = Path.home()  # tests get another one while they run


def cache_folder() -> Path:
    """Return the folder for what is kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or HOME / ".cache") / "fdl"


def candidates(minor: int) -> list[Path]:
    """Return the files that may be CPython 3.`minor`, those on PATH first."""
    name = f"python3.{minor}"
    found = [Path(folder) / name for folder in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or HOME / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or HOME / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    for pattern in (pyenv / "versions/*/bin", uv / "*/bin", cache_folder() / "pythons/*/usr/bin"):
        found += sorted(Path("/").glob(f"{pattern.relative_to('/')}/{name}"), reverse=True)
    return [path for path in found if shutil.which(path)]


@functools.cache
def version_of(path: Path) -> tuple[int, int, int] | None:
    """Return the version of a Python; None if it does not start or is not CPython."""
    try:
        done = subprocess.run(
            [str(path), "-I", "-c", FACTS],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:  # the shim of pyenv for a version that is not switched on
        return None
    implementation, version = json.loads(done.stdout)
    return tuple(version) if implementation == "cpython" else None


def find(minor: int, at_least: tuple[int, int, int] = (0, 0, 0)) -> Path | None:
    """Return a CPython 3.`minor` that starts, at least as new as a version; None if there is none."""
    for path in candidates(minor):
        version = version_of(path)
        if version is not None and version[:2] == (3, minor) and version >= at_least:
            return path
    return None
