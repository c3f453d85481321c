"""A run of a file as the main program, as `python FILE` would."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import ModuleType

from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.isolated_import import IMPORT_SEED
from flodl_verify.sandbox.one_process import be_one_process, starts_processes
from flodl_verify.sandbox.seeds import seed_all


def run_main(file: Path, name: str, shown: Path, text: bytes | None = None) -> Failure | None:
    """Run a file as a script that says it is `shown`; return its error, if any.

    It runs `text`; without one, the content of the file.
    """
    module = ModuleType("__main__")
    module.__file__ = str(shown)
    package, dot, _ = name.rpartition(".")
    module.__package__ = package if dot else None
    sys.modules["__main__"] = module
    sys.argv = [str(shown)]
    seed_all(IMPORT_SEED)
    content = file.read_bytes() if text is None else text
    if starts_processes(content):
        be_one_process()
    code = attempt(lambda: compile(content, str(file), "exec"))
    if isinstance(code, Failure):
        return code
    # Names of Python that the program replaces are its own; those of this module are a copy.
    vars(module)["__builtins__"] = builtins
    ended = attempt(lambda: exec(code, vars(module)), file)
    return ended if isinstance(ended, Failure) else None
