"""The first ten minutes: with README alone, from an own script to its port, a picture and a watched training.

`first_minutes/` has the script of a user, the training that README shows with the user's model in it, and the
transcript of the session. Both a fresh clone and an installed wheel have to give that transcript.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pytest

from tests.docs.reading import ROOT, blocks, read

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(300)]

SESSION = ROOT / "tests" / "docs" / "first_minutes"
COMMANDS = (
    "fdl port stripes.py",
    "fdl graph stripes_flodl.py:Stripes --svg stripes.svg",
    "python train.py",
)
# Times and losses differ from machine to machine.
MEASURED = re.compile(r"(?<=loss=)[\d.]+|(?<=loss: )[\d.]+|\d+(?:\.\d+)?(?:ms|s)\b")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A folder of the user, and where `fdl` and `flodl` come from."""

    folder: Path
    source: Path

    def command(self, line):
        """Return a line of the session as words for a process."""
        program, *words = line.split()
        module = ["-m", "fdl_cli"] if program == "fdl" else []
        return [sys.executable, "-P", *module, *words] if module else [sys.executable, *words]

    @property
    def environment(self):
        """The environment of a shell in which that source is installed."""
        quiet = {"NO_COLOR": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        home = {"HOME": str(self.folder.parent), "FLODL_HOME": str(self.folder.parent / "home")}
        return {**os.environ, **quiet, **home, "PYTHONPATH": str(self.source)}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Return a folder with the files that git knows, as a clone has them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is no checkout of git")
    folder = tmp_path_factory.mktemp("clone")
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    """Return a folder with what the wheel of that clone installs."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, clone]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    zipfile.ZipFile(path).extractall(out / "site")
    return out / "site"


@pytest.fixture(params=["clone", "wheel"])
def seat(request, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("stripes.py", "train.py"):
        shutil.copy(SESSION / name, folder)
    return Seat(folder=folder, source=request.getfixturevalue(request.param))


def test_session_with_readme_alone_ends_with_port_picture_and_watched_training(seat, golden):
    lines = []
    for command in COMMANDS:
        done = subprocess.run(
            seat.command(command), cwd=seat.folder, env=seat.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        shown = done.stdout.replace(f"{seat.folder.resolve()}/", "")
        lines += [f"$ {command}", *MEASURED.sub("_", shown).splitlines()]
    golden(SESSION / "transcript.txt", "\n".join(lines) + "\n")
    assert (seat.folder / "stripes.svg").read_text("utf-8").startswith("<svg")
    assert watched(seat) == 200


def watched(seat):
    """Open the page of `fdl monitor runs/` and return the status of the answer; Ctrl-C ends the server."""
    with subprocess.Popen(
        seat.command("fdl monitor runs/"), cwd=seat.folder, env=seat.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        address = server.stdout.readline().strip()
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return answer.status
        finally:
            server.send_signal(signal.SIGINT)


def test_each_source_of_the_session_is_the_one_that_runs(seat):
    # They are found, not imported: torch takes seconds.
    code = (
        "from importlib.util import find_spec as f; print(f('fdl_cli').origin, f('flodl').origin)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=seat.environment, cwd=seat.folder,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert all(Path(each).is_relative_to(seat.source) for each in done.stdout.split())


def test_session_needs_nothing_that_readme_does_not_show():
    readme = read(ROOT / "README.md")
    for words in ("fdl port ", "fdl graph model.py:Net --svg net.svg", "fdl monitor runs/"):
        assert f"./{words}" in readme or f"`{words}`" in readme, words
    shown = {
        line.strip()
        for block in blocks(ROOT / "README.md")
        if block.kind == "python"
        for line in block.body.splitlines()
    }
    chain = [
        line.strip()
        for line in read(SESSION / "train.py").splitlines()
        if line.startswith("    .")
    ]
    own = [line for line in chain if line not in shown]
    assert own == [".dataset([*pictures(256)])"]
    assert len(chain) > 6
