"""Creation of an environment that exists whole or not at all."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fdl_cli.errors import OperationFailedError
from fdl_cli.system.process import run
from fdl_cli.system.python_env import Environment
from fdl_cli.torch_setup.install.pip_tool import Pip, install_pip

Echo = Callable[[str], None]
SECONDS = 300.0
SMALLEST: Final = 20_000_000  # bytes that a new environment with pip takes


def create_environment(wanted: Environment, *, pip: Pip, echo: Echo) -> Environment:
    """Make a virtual environment beside its place and rename it; return it.

    `pip.interpreter` is the Python to make it of. Where that brings no pip, as Debian's does without the
    package `python3-venv`, `pip` installs one into the environment.

    Programs inside name their interpreter by its full path, so these names are corrected
    before the rename.
    """
    folder = wanted.folder
    draft = folder.with_name(f"{folder.name}.new-{os.getpid()}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(draft, ignore_errors=True)
    try:
        _make(pip, draft, echo)
        _rename_inside(draft, folder)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Environment(folder=folder, kind="venv", why="created by `fdl setup`")


def _make(pip: Pip, draft: Path, echo: Echo) -> None:
    brings_pip = run((pip.interpreter, "-c", "import ensurepip"), timeout=SECONDS, check=False)
    bare = ("--without-pip",) if brings_pip.returncode else ()
    try:
        run((pip.interpreter, "-m", "venv", *bare, str(draft)), timeout=SECONDS, echo=echo)
        if bare:
            inside = draft / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
            install_pip(pip, inside, echo=echo)
    except OperationFailedError as problem:
        # venv tells the exit code of pip's installer, and not that the disk is full.
        if shutil.disk_usage(draft.parent).free < SMALLEST:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(draft)) from problem
        raise


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
