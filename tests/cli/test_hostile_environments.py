"""The wheel on machines that are against it: command lines in ten environments, no bug report.

Any refusal is fine that names its reason; `error[internal]`, a traceback, a code that nobody documented
or a line of a foreign language are not.
"""

import compileall
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOBODY = 65534
CODES = {0, 1, 2, 3, 4, 5, 6, 7}
LIMIT_S = 100

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.lin(x))
"""
MANIFEST = """
env: {WHO: "\u00fcberall"}
commands:
  hello: {run: 'echo hello $WHO'}
  train: {entry: [python3, model.py], needs: [hello]}
  boxed: {run: echo boxed, docker: dev}
services:
  dev: {image: python:3.11-slim}
"""
LINES = [
    "",
    "--version",
    "--help",
    "help exit-codes",
    "help nothing",
    "nonsense",
    "init new --vcs none",
    "init n\u00eaw",
    "init again --docker --dry-run",
    "add ci",
    "port model.py --no-verify --diff",
    "port model.py --no-verify -o out/ported.py",
    "port missing.py",
    "port --explain all",
    "graph model.py",
    "checkpoint show model.py",
    "hello",
    "-n boxed",
    "boxed",
    "run --list --json",
    "why train",
    "why --manifest",
    "runs",
    "runs --again -n",
    "setup --dry-run --json",
    "libtorch list",
    "diagnose --json",
    "install --check",
    "install",
    "install --completion bash",
    "api-ref Linear",
    "api-ref nn.Lineer",
    "skill list",
    "skill install flodl-port --for agents",
    "monitor runs --export page.html",
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The files of the wheel, where everybody may read them."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder), str(ROOT)],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    compileall.compile_dir(folder / "site", quiet=1)  # as pip does, once instead of at each start
    return folder / "site"


class Machine:
    """A folder to work in, an environment, and a way to start programs there."""

    def __init__(self, unpacked, place):
        self.folder = place / "project"
        self.home = place / "home"
        self.before = [sys.executable]
        self.folder.mkdir(parents=True)
        self.home.mkdir()
        (self.folder / "model.py").write_text(MODEL)
        (self.folder / "fdl.yml").write_text(MANIFEST, encoding="utf-8")
        self.environ = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONPATH": str(unpacked),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "FDL_PROBE_TIMEOUT": "3",
        }

    def run(self, line):
        return subprocess.run(
            [*self.before, "-P", "-m", "fdl_cli", *line.split()],
            cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def usual(machine):
    """An ordinary machine, for comparison."""


def no_home(machine):
    machine.environ.pop("HOME")
    machine.environ.pop("LANG")


def home_is_a_file(machine):
    (machine.home.parent / "file").write_text("")
    machine.environ["HOME"] = str(machine.home.parent / "file")


def home_with_spaces(machine):
    home = machine.home.parent / "my \u00fcber home's $HOME"
    home.mkdir()
    machine.environ["HOME"] = str(home)


def plain_c_locale(machine):
    machine.environ |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def no_numpy(machine):
    hidden = machine.home.parent / "hidden"
    (hidden / "numpy").mkdir(parents=True)
    (hidden / "numpy" / "__init__.py").write_text("raise ImportError('no numpy here')\n")
    machine.environ["PYTHONPATH"] = f"{hidden}:{machine.environ['PYTHONPATH']}"


def no_network(machine):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        machine.environ[name] = "http://127.0.0.1:9"
    machine.environ |= {"PIP_NO_INPUT": "1", "PIP_RETRIES": "0", "PIP_TIMEOUT": "2"}


def garbage_drivers(machine):
    tools = machine.home.parent / "tools"
    garbage = r"printf 'caf\351 \000\001 , , N/A\n[Unknown Error]\n'; exit 0"
    for name in ("nvidia-smi", "rocm-smi", "rocminfo", "amd-smi", "xpu-smi", "git"):
        script(tools / name, garbage)
    script(tools / "docker", "echo 'Segmentation fault' >&2; exit 139")
    machine.environ["PATH"] = f"{tools}:{machine.environ['PATH']}"


def read_only_home(machine):
    """Somebody without rights: root may write everywhere."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming nobody takes root and setpriv")
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    # The Python of root may lie where nobody else looks; Debian's has the packages of the same version.
    packages = sysconfig.get_path("purelib")
    probe = "import sys, typer; print(sys.version_info[:2])"
    for python in (sys.executable, "/usr/bin/python3"):
        environ = {**machine.environ, "PYTHONPATH": packages}
        done = subprocess.run(
            [*become, python, "-c", probe],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.stdout.strip() == str(sys.version_info[:2]):
            break
    else:
        pytest.skip("nobody may read a Python of this version")
    machine.before = [*become, python]
    machine.environ["PYTHONPATH"] += f":{packages}"
    for path in (machine.home, machine.folder):
        path.chmod(0o555)


@contextlib.contextmanager
def full_disk(machine):
    if os.geteuid() != 0:
        pytest.skip("a small disk takes root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=24", "tmpfs", str(machine.home)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip(f"mount: {mounted.stderr.decode().strip()}")
    try:
        with contextlib.suppress(OSError):
            (machine.home / "ballast").write_bytes(bytes(64 * 1024))
        yield
    finally:
        subprocess.run(["umount", "-l", str(machine.home)], check=True)


ENVIRONMENTS = [
    usual, no_home, home_is_a_file, home_with_spaces, plain_c_locale, no_numpy, no_network,
    garbage_drivers, read_only_home, full_disk,
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "environment"),
    [*enumerate(ENVIRONMENTS)],
    ids=[each.__name__ for each in ENVIRONMENTS],
)
def test_fdl_in_a_hostile_environment_never_reports_a_bug(unpacked, tmp_path, number, environment):
    # Pytest's folders are for their owner alone; nobody must get through.
    for path in (tmp_path, *tmp_path.parents, unpacked, *unpacked.parents):
        if path.name.startswith(("pytest", "test_", "wheel", "popen")):
            path.chmod(0o755)
    machine = Machine(unpacked, tmp_path)
    change = environment(machine)
    faults = []
    with change if change is not None else contextlib.nullcontext():
        assert machine.run("--version").stdout.startswith(b"fdl ")
        # Each command meets the usual machine and half of the others.
        for line in LINES if environment is usual else LINES[number % 2 :: 2]:
            done = machine.run(line)
            shown = (done.stdout + done.stderr).decode(errors="replace")
            wrong = [
                word for word in ("error[internal]", "Traceback", "fdl has a bug") if word in shown
            ]
            if done.returncode not in CODES or wrong:
                faults.append(f"fdl {line}: {done.returncode} {shown[-600:]}")
    assert faults == []
