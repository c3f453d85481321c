"""One look-up for the user's Python: a tool without torch, a project whose `.venv` has it and no flodl."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import torch

from fdl_cli.errors import UsageError
from fdl_cli.system.user_python import find_user_python, named_environment
from flodl.checkpoint.store import save_checkpoint

ROOT = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_path("purelib"))
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.layer(x))
"""
FLOW = """
from torch import nn
from flodl import Flow, FlowModule

class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.layer)
"""


def make_environment(folder, wanted, *, tool):
    """Make an environment whose packages are links to those that the tests run with."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for entry in PACKAGES.iterdir():
        if wanted(entry.name.lower()) and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    if tool:
        (site / "tool.pth").write_text(f"{ROOT}\n")
    return folder / "bin" / "python"


OF_TORCH = (
    "torch", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec",
    "filelock", "functorch", "numpy", "nvidia", "cuda", "triton",
)  # fmt: skip


def belongs_to_torch(name):
    return name.startswith(OF_TORCH)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A tool as pipx installs it, and a project whose environment has torch and nothing else."""
    folder = tmp_path_factory.mktemp("machine")
    tool = make_environment(
        folder / "tool",
        lambda name: not name.startswith(("torch", "_", "fdl", "flodl")),
        tool=True,
    )
    project = folder / "project"
    user = make_environment(project / ".venv", belongs_to_torch, tool=False)
    (project / "model.py").write_text(MODEL)
    (project / "flow.py").write_text(FLOW)
    empty = folder / "elsewhere"
    empty.mkdir()
    (empty / "model.py").write_text(MODEL)
    return tool, user, project, empty


@pytest.fixture
def fdl(machine, tmp_path):
    tool = machine[0]

    def run(*words, cwd, code=0, **environ):
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        done = subprocess.run(
            [tool, "-P", "-m", "fdl_cli", *words, "--json"], cwd=cwd,
            env={**kept, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", **environ},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.slow
def test_port_and_compare_run_in_the_projects_python(machine, fdl):
    _, _, project, _ = machine
    data = fdl("port", "model.py", "--force", cwd=project)["data"]
    (found,) = data["files"][0]["classes"]
    assert (found["status"], found["verify"]["status"]) == ("graph", "equal")
    data = fdl("port", "--verify-only", "model.py", "model_flodl.py", cwd=project)["data"]
    assert data["files"][0]["classes"][0]["verify"]["status"] == "equal"


@pytest.mark.slow
def test_graph_monitor_and_checkpoint_run_in_the_projects_python(machine, fdl, tmp_path):
    _, _, project, _ = machine
    data = fdl("graph", "flow.py:Net", "--example", "Net(): torch.ones(1, 4)", cwd=project)["data"]
    assert data["title"] == "Net"
    served = fdl("monitor", "--port", "0", cwd=project)["data"]
    os.kill(served["pid"], signal.SIGTERM)
    save_checkpoint(tmp_path / "old.fdl", {"a": torch.ones(2)})
    words = ("checkpoint", "migrate", str(tmp_path / "old.fdl"), str(tmp_path / "new.fdl"))
    assert fdl(*words, "--rename", "a=b", cwd=project)["data"]["remapped"] == [
        {"old": "a", "new": "b"}
    ]


def test_diagnose_looks_at_the_python_that_commands_run_in(machine, fdl):
    _, user, project, empty = machine

    def checks(*words, cwd):
        data = fdl("diagnose", *words, cwd=cwd)["data"]
        return {each["id"]: each for each in data["checks"]}

    for seen in (checks(cwd=project), checks("--python", str(user), cwd=empty)):
        assert seen["torch.present"]["ok"] is True
        assert str(project / ".venv") in seen["py.venv"]["message"]
    # The tool has no torch, so that `fdl setup` is the way on.
    seen = checks(cwd=empty)
    assert seen["torch.present"]["remedy"] == "`fdl setup`"
    assert seen["py.venv"]["message"] == f"there is no environment at {empty / '.venv'}"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["program", "folder", "VIRTUAL_ENV", "CONDA_PREFIX"])
def test_python_and_active_environments_are_used_elsewhere(machine, fdl, how):
    _, user, project, empty = machine
    named = {"program": str(user), "folder": str(project / ".venv")}
    words = ("--python", named[how]) if how in named else ()
    active = {} if how in named else {how: str(project / ".venv")}
    data = fdl("port", "model.py", "--force", *words, cwd=empty, **active)["data"]
    assert data["files"][0]["classes"][0]["verify"]["status"] == "equal"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("graph", "model.py:Net"), ("monitor",), ("checkpoint", "migrate", "a.fdl", "b.fdl")]
)
def test_a_python_without_torch_is_named(machine, fdl, words):
    tool, _, _, empty = machine
    error = fdl(*words, cwd=empty, code=5)["error"]
    assert error["id"] == "torch-missing"
    assert f"`{tool}` (the Python of fdl itself)" in error["message"]
    assert "`fdl setup`" in error["hint"]


def test_find_user_python_order(tmp_path):
    made = {}
    for name in ("project", "active", "conda"):
        interpreter = tmp_path / name / ".venv" / "bin" / "python"
        interpreter.parent.mkdir(parents=True)
        interpreter.symlink_to(sys.executable)
        (tmp_path / name / ".venv" / "pyvenv.cfg").write_text("version = 3.12.1\n")
        made[name] = interpreter
    active = {"VIRTUAL_ENV": str(tmp_path / "active" / ".venv")}
    conda = {"CONDA_PREFIX": str(tmp_path / "conda" / ".venv")}
    roots = (tmp_path / "project", tmp_path)

    def found(named=None, roots=(tmp_path,), environ=None):
        return find_user_python(named, roots, environ or {}).interpreter

    assert found(made["conda"], roots, active) == made["conda"]
    assert found(made["conda"].parents[1], roots, active) == made["conda"]
    assert found(None, roots, active | conda) == made["project"]
    assert found(environ=active | conda) == made["active"]
    assert found(environ=conda) == made["conda"]
    assert found() == Path(sys.executable)
    assert found(environ={"VIRTUAL_ENV": str(tmp_path / "gone")}) == Path(sys.executable)
    assert named_environment(made["active"]).folder == made["active"].parents[1]
    with pytest.raises(UsageError, match="names neither an interpreter nor an environment"):
        found(tmp_path / "project")
