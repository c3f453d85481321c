"""The packages that a task needs, compared with those that its Python has.

On the path of `fdl <task>`, so from the names of folders alone: `torch-2.13.0.dist-info` beside
`bin/python` is enough to start. Otherwise the long way starts the interpreter, because a Python
may find packages in other places too.
"""

import os
from collections.abc import Mapping

from fdl_cli.manifest.model import Invocation


def find_python(invocation: Invocation, environ: Mapping[str, str]) -> str | None:
    """Return the `python` that a task starts, if there is one."""
    path = environ.get("PATH", "")
    for change in invocation.changes:
        if change.name == "PATH" and change.value is not None:
            path = change.value
    names = ("python.exe",) if os.name == "nt" else ("python", "python3")
    for name in names:
        for folder in path.split(os.pathsep):
            if folder and os.access(f"{folder}/{name}", os.X_OK):
                return f"{folder}/{name}"
    return None


def surely_has(python: str | None, packages: tuple[str, ...]) -> bool:
    """Return True if all packages are installed right beside an interpreter."""
    if python is None:
        return not packages
    held = _installed(os.path.dirname(os.path.dirname(python)))
    return all(_normal(name) in held for name in packages)


def _installed(prefix: str) -> set[str]:
    found: set[str] = set()
    for version in _entries(f"{prefix}/lib"):
        if version.startswith("python3"):
            entries = _entries(f"{prefix}/lib/{version}/site-packages")
            found.update(_normal(each.split("-")[0]) for each in entries if "-info" in each)
    return found


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # the long way starts the interpreter then


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
