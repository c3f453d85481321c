"""Create an environment so that it exists whole or not at all."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from fdl_cli.system.process import run
from fdl_cli.system.python_env import Environment

Echo = Callable[[str], None]
SECONDS = 300.0


def create_environment(wanted: Environment, *, python: Path | None, echo: Echo) -> Environment:
    """Make a virtual environment beside its place and rename it; return it.

    Programs inside name their interpreter by its full path, so these names are corrected
    before the rename.
    """
    folder = wanted.folder
    interpreter = python or Path(sys.executable)
    draft = folder.with_name(f"{folder.name}.new-{os.getpid()}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(draft, ignore_errors=True)
    try:
        run((interpreter, "-m", "venv", str(draft)), timeout=SECONDS, echo=echo)
        _rename_inside(draft, folder)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Environment(folder=folder, kind="venv", why="created by `fdl setup`")


def _rename_inside(draft: Path, final: Path) -> None:
    before, after = str(draft).encode(), str(final).encode()
    programs = draft / ("Scripts" if sys.platform == "win32" else "bin")
    short_before, short_after = draft.name.encode(), final.name.encode()
    for path in (draft / "pyvenv.cfg", *programs.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        changed = content.replace(before, after).replace(short_before, short_after)
        if changed != content:
            path.write_bytes(changed)
