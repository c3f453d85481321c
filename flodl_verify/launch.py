"""Start of the server of proofs with the rules on: run as `python -I launch.py SOCKET FOLDER PACKAGES PATHS`.

Nothing of flodl, torch or the program is imported before the kernel forbids writes: with `-I`, Python
reads no environment variables, no user site and no current folder. Then Python is started once more,
under those rules, with a fixed seed of its hashes, and imports the runtime from where it lies. The
second start takes its code from its standard input, so that its command line names no proof.

PACKAGES is the folder that holds the prover and the runtime, often a `site-packages`. Nothing else is
imported from there: its other packages are those of the tool, not of the program.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, final

# The code that judges and observes. User code must not change what its built-in names mean.
_GUARDED = ("flodl_verify", "flodl.pytree")
_PACKAGES = ("flodl", "flodl_verify")


def restrict(socket: int, folder: str, packages: str, paths: str) -> None:
    """Switch the rules on, and start Python again under them."""
    spec = importlib.util.spec_from_file_location(
        "write_barrier", Path(packages, "flodl_verify", "sandbox", "write_barrier.py")
    )
    assert spec is not None
    assert spec.loader is not None
    barrier = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(barrier)
    barrier.forbid_writes([Path(folder)])
    code = Path(__file__).read_text(encoding="utf-8")
    call = f"start({socket}, {folder!r}, {packages!r}, {paths.split(os.pathsep)!r})"
    read, write = os.pipe()
    os.dup2(read, 0)
    with os.fdopen(write, "w", encoding="utf-8") as file:
        file.write(f"{code}\n{call}\n")  # less than a pipe holds
    os.set_inheritable(socket, True)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    command = "import sys; exec(compile(sys.stdin.read(), '<string>', 'exec'))"
    os.execve(sys.executable, [sys.executable, "-P", "-s", "-c", command], environment)


def start(socket: int, folder: str, packages: str, paths: list[str]) -> None:
    """Import the runtime, and serve."""
    sys.path[:0] = [path for path in paths if path]
    user_site = _user_site()
    if user_site is not None:
        sys.path.append(user_site)
    sys.meta_path.insert(0, _Finder(packages))
    from flodl_verify.verify_session import serve

    serve(socket, Path(folder))


def _user_site() -> str | None:
    """Return the folder of packages of this user, which environments of projects do not see."""
    import site

    if sys.prefix != sys.base_prefix:
        return None
    folder = site.getusersitepackages()
    return folder if Path(folder).is_dir() else None


@final
class _Finder(MetaPathFinder):
    """Finds the prover and the runtime, and gives the code that judges and observes another loader."""

    def __init__(self, packages: str) -> None:
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the usual spec, or None for all other modules."""
        if fullname in _PACKAGES:
            path = [self._packages]
        elif fullname.partition(".")[0] not in _PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        guarded = any(fullname == name or fullname.startswith(f"{name}.") for name in _GUARDED)
        if guarded and spec is not None and spec.origin is not None:
            spec.loader = _GuardedLoader(fullname, spec.origin)
        return spec


@final
class _GuardedLoader(SourceFileLoader):
    """Gives a module its own copy of the built-in names."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of the module."""
        vars(module)["__builtins__"] = _BUILTINS
        super().exec_module(module)


_BUILTINS = dict(vars(sys.modules["builtins"]))

if __name__ == "__main__" and len(sys.argv) > 1:
    _, *_words = sys.argv
    restrict(int(_words[0]), *_words[1:])
