"""The site of the documents, built once for all test processes."""

import fcntl
import importlib.util
from pathlib import Path

import pytest

from docs._build.__main__ import prepare, render


def once(folder, mark, make):
    """Call a function unless another test process has called it already."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / mark
        if not done.exists():
            make()
            done.touch()


@pytest.fixture(scope="session")
def staged(tmp_path_factory) -> Path:
    """Return the folder with the sources of the site; the tutorials were run for it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "site"
    once(folder, "prepared", lambda: prepare(folder))
    return folder / "build" / "docs"


@pytest.fixture(scope="session")
def site(staged) -> Path:
    """Return the folder with the HTML."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed: `pip install -e '.[docs]'`")
    folder = staged.parents[1]

    def make():
        assert render(folder) == 0, "zensical reported a problem; see its output"

    once(folder, "rendered", make)
    return folder / "site"
