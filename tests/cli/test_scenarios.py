"""Two hundred command lines, each with its exit code and both of its streams, as stored.

`scenarios/*.txt` are what people type, in a small project; `--update-golden` writes what came out
below each line. Long output is cut: what help pages say belongs to other tests.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli import __version__

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "scenarios"
ROOT = Path(__file__).parents[2]
LONGEST = 5
# Another user who may still read this Python; only root can become one.
OTHER = (
    "setpriv --reuid=12345 --regid=12345 --clear-groups --inh-caps=+dac_read_search "
    "--ambient-caps=+dac_read_search"
)
FILES = {
    "fdl.yml": """\
commands:
  hello: {run: echo hello}
  args: {run: [printf, '[%s]'], forward: auto}
  cat: {run: cat}
  count: {run: wc -l}
  both: {run: echo out; echo err >&2}
  many: {run: seq 100000}
  where: {run: basename "$PWD", cwd: sub}
  fail: {run: exit 7}
  killed: {run: kill -KILL $$}
  hidden: {run: 'true', hidden: true}
  dangerous: {run: echo done, confirm: Really?}
  no-cwd: {run: 'true', cwd: nothing}
  no-program: {run: [no-such-program]}
  no-variable: {run: 'true', env: {X: '${NOTHING:?it is needed}'}}
  boxed: {run: 'true', docker: dev}
services:
  dev: {image: nothing}
""",
    "fdl.ci.yml": "commands: {hello: {run: echo hello from ci}}\n",
    "model.py": """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x):
        return torch.relu(self.first(x))
""",
    "broken.py": "def f(:\n",
    "notes.txt": "no Python, no JSON\n",
    "secret.py": "import torch\n",
    "secret.pt": "x",
    "sub/deep/x": "",
    "empty/x": "",
}


def blocks(text):
    """Return each command of a file with what stands below it."""
    found = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ ") or not found:
            found.append([line, ""])
        elif found[-1][1] == "" and not line.startswith(("[exit ", "#")):
            found[-1][0] += line
        else:
            found[-1][1] += line
    return found


@pytest.fixture
def shell(tmp_path):
    """Run a line of bash in a fresh copy of the project."""
    programs = tmp_path / "bin"
    programs.mkdir()
    start = f'exec {shlex.quote(sys.executable)} -P -m fdl_cli "$@"'
    for name, line in (("fdl", start), ("other", f'exec {OTHER} "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    for parent in tmp_path.parents:
        if str(parent) not in ("/", "/tmp") and parent.owner() == "root":
            parent.chmod(parent.stat().st_mode | 0o055)

    def run(line, number):
        folder = tmp_path / str(number) / "p"
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        (folder / "latin.py").write_bytes("# caf\xe9\nimport torch\n".encode("latin-1"))
        home = tmp_path / str(number) / "home"
        home.mkdir()
        home.chmod(0o777)
        environ = {
            "PATH": f"{programs}:/usr/bin:/bin:/usr/sbin", "HOME": str(home), "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT), "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1",
            "PIP_CONFIG_FILE": os.devnull, "DOCKER_HOST": "unix:///nonexistent.sock",
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environ,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False,
        )  # fmt: skip
        shown = f"[exit {done.returncode}]\n"
        for name, data in (("out", done.stdout), ("err", done.stderr)):
            text = plain(data.decode("utf-8", "backslashreplace"), folder, home)
            shown += "".join(f"{name}: {row}".rstrip() + "\n" for row in cut(text))
        return shown

    return run


def plain(text, folder, home):
    """Replace what differs from machine to machine."""
    for path, word in ((folder, "PROJECT"), (home, "HOME"), (folder.parents[1], "TMP")):
        text = text.replace(str(path), word)
    text = text.replace(__version__, "VERSION").replace(sys.executable, "PYTHON")
    text = text.replace(str(ROOT), "ROOT").replace("\x1b", "\\e")
    text = re.sub(r"/[^\s`]*/bin/python[\d.]*", "PYTHON", text)
    text = re.sub(r"\s*\b\d+ Killed\s+", " PID Killed ", text)  # the shell pads the number
    return re.sub(r"\b\d+(\.\d+)? ?(ms|s)\b", "TIME", text)


def cut(text):
    """Keep the beginning of what is long."""
    rows = text.splitlines()
    return rows if len(rows) <= LONGEST else [*rows[: LONGEST - 2], "..."]


@pytest.mark.parametrize("name", ["global", "streams", "places", "project", "commands"])
def test_command_lines(shell, golden, name):
    if shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("only root can look at fdl as another user")
    path = HERE / f"{name}.txt"
    written = ""
    for number, (line, _) in enumerate(blocks(path.read_text())):
        if not line.startswith("$ "):
            written += line
            continue
        written += line + shell(line.removeprefix("$ ").rstrip("\n"), number)
    golden(path, written)


def test_there_are_enough_of_them():
    lines = [line for path in HERE.glob("*.txt") for line in path.read_text().splitlines()]
    assert sum(line.startswith("$ ") for line in lines) >= 200
    assert "[exit 70]" not in lines, "fdl has a bug there"
    codes = {line for line in lines if line.startswith("[exit ")}
    assert codes >= {f"[exit {code}]" for code in (0, 1, 2, 3, 4, 5, 6, 7, 141)}
