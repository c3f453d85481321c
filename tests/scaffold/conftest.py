"""Projects made by `fdl init`, and a way to run programs in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.plan import plan_new
from fdl_cli.scaffold.record import record_text
from fdl_cli.scaffold.rendering import render
from fdl_cli.scaffold.writing import create_project


def make(root: Path, **wishes) -> Path:
    """Write a project as `fdl init` does, without git."""
    answers = make_answers(root.name, **wishes)
    files = render(answers)
    planned = plan_new(root, files, force=False, skip_existing=False)
    create_project(root, planned, record_text(answers, files), lambda folder: None)
    return root


def run_in(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS...` in a project."""
    # The fdl under test may come from PYTHONPATH, as in a second checkout.
    paths = os.pathsep.join(filter(None, (f"{folder / 'src'}", os.environ.get("PYTHONPATH"))))
    environ = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make(tmp_path / "my-proj")
