"""Start of a flodl module in the user's Python: `python -P runtime_start.py FOLDERS MODULE ARGUMENT...`.

In place of a module it takes the path of a script, which is started as Python itself would do it.

That Python has torch and need not have flodl. It then gets the runtime and the prover of the tool, and the
one package that the runtime needs besides torch. They come from the folders that the tool names; packages
of that Python come first.
"""

import importlib.machinery
import os
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import final

PACKAGES = ("flodl", "flodl_verify", "xxhash")


@final
class _Beside:
    """Finds these packages where the tool has them, and nothing else that is installed there."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a package is, if it is one of ours."""
        del target
        if path is not None or name not in PACKAGES:
            return None
        return importlib.machinery.PathFinder.find_spec(name, self._folders)


if __name__ == "__main__":
    sys.meta_path.append(_Beside(sys.argv[1].split(os.pathsep)))
    module = sys.argv[2]
    del sys.argv[1:3]
    if module.endswith(".py"):
        sys.path.insert(0, os.path.dirname(module))  # noqa: PTH120 - pathlib is not needed here
        sys.argv[0] = module
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
