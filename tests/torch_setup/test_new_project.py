"""From a wheel to a training: `fdl init my-proj && cd my-proj && fdl train`, with nothing done by hand.

The only index is a local one with wheels packed from the packages that are installed here. The real
torch is in the environment already, as links; everything else is installed.
"""

import hashlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from multiprocessing.connection import wait

import pytest
from fake_torch import serve_index, wheel

from tests.cli.test_user_python import belongs_to_torch, make_environment
from tests.containers import host_made

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.timeout(600),  # each test installs thousands of files
    pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX"),
]
SMALL = ("train.epochs=1", "data.samples=64", "train.device=cpu")


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    wanted = ("editables", "hatchling", "mypy", "pytest", "ruff")
    host_made.fill_wheelhouse(folder, *wanted, *host_made.needed_beside_links())
    return folder


@pytest.fixture(scope="module")
def index(wheelhouse):
    """An index with all packages but flodl; its torch is only a name, as environments have the real one."""
    import torch

    version = f"{torch.__version__.partition('+')[0]}+{host_made.torch_variant()}"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    with serve_index() as server:
        server.add(wheel("torch", version, {}, tag=f"{tag}-{tag}-manylinux_2_17_x86_64"))
        for path in wheelhouse.glob("*.whl"):
            if not path.name.startswith("flodl-"):
                server.add((path.name, path.read_bytes()))
        yield server


def make_tool(folder, wheelhouse, *words):
    """Make an environment with the tool alone, as `pipx install` does."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index",
         "--find-links", wheelhouse, "--disable-pip-version-check", "pip", *words],
        check=True, timeout=300, cwd=folder,
    )  # fmt: skip
    return folder / "bin" / "fdl"


@pytest.fixture(scope="module")
def machine(tmp_path_factory, wheelhouse):
    """The wheel, and a tool that was installed from it."""
    folder = tmp_path_factory.mktemp("machine")
    (made,) = wheelhouse.glob("flodl-*.whl")
    own = folder / made.name
    shutil.copy(made, own)
    host_made.fill_pip(wheelhouse)
    return own, make_tool(folder / "tool", wheelhouse, own)


class Machine:
    """Runs the tool with nothing else on the machine."""

    def __init__(self, tool, index, home):
        self.tool = tool
        self.environ = {
            "PATH": f"{tool.parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8",
            "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{index.url}/simple", "PIP_RETRIES": "0",
            # The official index does not exist here: the proxy refuses it at once.
            "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip

    def fdl(self, *words, cwd, code=0, **environ):
        done = subprocess.run(
            [self.tool, *words], cwd=cwd, env={**self.environ, **environ}, timeout=500,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def on_terminal(self, *words, cwd, answer):
        """Run the tool on a terminal, answer its first question; return the exit code and the output."""
        master, slave = pty.openpty()
        child = subprocess.Popen(
            [self.tool, *words], cwd=cwd, env={**self.environ, "TERM": "xterm"},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        said, answered = "", False
        while wait([master], 500):
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            said += data.decode(errors="replace")
            if not answered and re.search(r"\[Y/n\] $", said):
                os.write(master, f"{answer}\n".encode())
                answered = True
        os.close(master)
        return child.wait(timeout=60), said


@pytest.fixture
def user(machine, index, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Machine(machine[1], index, home)


@pytest.fixture
def whole_project(user, tmp_path):
    """A new project, whose environment holds torch and nothing else."""
    user.fdl("init", "my-proj", cwd=tmp_path)
    root = tmp_path / "my-proj"
    make_environment(root / ".venv", belongs_to_torch, tool=False)
    return root


@pytest.fixture
def project(whole_project):
    """The same without the large development tools, which take long to install."""
    path = whole_project / "pyproject.toml"
    text = path.read_text()
    path.write_text(re.sub(r"^dev = .*$", 'dev = ["pytest>=8"]', text, flags=re.MULTILINE))
    return whole_project


def test_new_project_holds_the_wheel_that_the_tool_came_from(machine, user, tmp_path):
    shown = json.loads(user.fdl("init", "my-proj", "--json", cwd=tmp_path).stdout)["data"]
    own, _ = machine
    held = tmp_path / "my-proj" / "vendor" / own.name
    assert held.read_bytes() == own.read_bytes()
    assert f"vendor/{own.name}" in [file["path"] for file in shown["files"]]


def test_new_project_of_a_tool_whose_wheel_is_gone_holds_one_with_the_same_files(
    wheelhouse, index, tmp_path
):
    (made,) = wheelhouse.glob("flodl-*.whl")
    host_made.fill_pip(wheelhouse)
    gone = tmp_path / made.name
    shutil.copy(made, gone)
    tool = make_tool(tmp_path / "tool", wheelhouse, gone)
    gone.unlink()
    (tmp_path / "home").mkdir()
    Machine(tool, index, tmp_path / "home").fdl("init", "my-proj", cwd=tmp_path)
    packed = tmp_path / "my-proj" / "vendor" / made.name
    assert contents(packed) == contents(made)
    again = make_tool(tmp_path / "again", wheelhouse, packed)
    version = subprocess.run([again, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("fdl ")


def contents(path):
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    record = next(name for name in found if name.endswith(".dist-info/RECORD"))
    lines = sorted(found.pop(record).decode().split())
    return lines, {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}


def test_train_without_a_terminal_is_code_7_with_the_command_to_type(user, project):
    done = user.fdl("train", *SMALL, cwd=project / "src", code=7)
    assert "error[not-set-up]: `fdl train` needs flodl, which" in done.stderr
    assert f"hint: `fdl -y train {' '.join(SMALL)}` sets the project up first" in done.stderr
    assert user.fdl("train", "-y", cwd=project, code=7).stderr.count("`fdl -y train -y`") == 1
    done = user.fdl("--env", "ci", "test", cwd=project, code=7)
    assert "`fdl test` needs flodl and pytest" in done.stderr
    assert "`fdl -y --env ci test`" in done.stderr


def test_train_after_yes_sets_the_project_up_and_trains(user, whole_project, machine):
    project = whole_project
    done = user.fdl("-y", "train", *SMALL, cwd=project)
    assert "epoch 1/1" in done.stdout
    assert done.stdout.splitlines()[0].startswith("run: runs/")
    (run,) = (project / "runs").iterdir()
    assert any((run / "checkpoints").glob("*.fdl"))
    # The tools came too, and the project itself is installed in place.
    tested = user.fdl("test", "-q", cwd=project).stdout
    assert " passed" in tested
    assert "failed" not in tested
    user.fdl("lint", cwd=project)
    site = next((project / ".venv").glob("lib/python*/site-packages"))
    assert list(site.glob("my_proj-*.dist-info"))
    noted = json.loads(next(site.glob("flodl-*.dist-info/direct_url.json")).read_text())
    assert noted["url"].endswith(f"my-proj/vendor/{machine[0].name}")
    # Arguments behind the name are the program's: it has no `-y`.
    assert "unrecognized arguments: -y" in user.fdl("train", "-y", cwd=project, code=2).stderr
    # The torch was there, and `fdl setup` proves it and writes it down; then nothing is left to do.
    # Its build is not always the one that a machine without a GPU would get.
    build = ("--variant", host_made.torch_variant())
    user.fdl("setup", "-y", *build, cwd=project)
    data = json.loads(user.fdl("setup", *build, "--json", cwd=project).stdout)["data"]
    assert (data["changed"], data["actions"]) == (False, [])


def test_setup_after_a_new_dependency_installs_the_project_again(user, project):
    said = json.loads(user.fdl("setup", "--dry-run", "--json", cwd=project).stdout)["data"]
    assert "install-project" in [each["kind"] for each in said["actions"]]
    user.fdl("setup", "--yes", cwd=project)
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace('"pytest>=8"', '"pytest>=8", "pluggy>=1"'))
    said = json.loads(user.fdl("setup", "--dry-run", "--json", cwd=project).stdout)["data"]
    assert [each["kind"] for each in said["actions"]] == ["install-project"]


def test_fdl_yes_answers_as_well(user, project):
    done = user.fdl("train", *SMALL, cwd=project, FDL_YES="1", CI="true")
    assert "epoch 1/1" in done.stdout


def test_train_on_a_terminal_asks_once(user, project):
    code, said = user.on_terminal("train", *SMALL, cwd=project, answer="n")
    assert code == 1
    assert "error[declined]" in said
    assert not (project / ".venv" / "fdl-project.json").exists()
    code, said = user.on_terminal("train", *SMALL, cwd=project, answer="")
    assert (code, said.count("[Y/n]")) == (0, 1), said
    assert "epoch 1/1" in said
    code, said = user.on_terminal("train", *SMALL, cwd=project, answer="")
    assert (code, said.count("[Y/n]")) == (0, 0), said


def test_setup_takes_flodl_from_an_index_that_has_it(wheelhouse, index, tmp_path):
    (made,) = wheelhouse.glob("flodl-*.whl")
    host_made.fill_pip(wheelhouse)
    tool = make_tool(tmp_path / "tool", wheelhouse, "flodl")
    (tmp_path / "home").mkdir()
    user = Machine(tool, index, tmp_path / "home")
    user.fdl("init", "my-proj", cwd=tmp_path)
    root = tmp_path / "my-proj"
    assert not (root / "vendor").exists()
    make_environment(root / ".venv", belongs_to_torch, tool=False)
    path = root / "pyproject.toml"
    path.write_text(re.sub(r"^dev = .*\n", "", path.read_text(), flags=re.MULTILINE))
    index.add((made.name, made.read_bytes()))
    try:
        user.fdl("setup", "-y", cwd=root)
    finally:
        del index.wheels[made.name]
    assert not (root / "vendor").exists()
    user.fdl("train", *SMALL, cwd=root)
    # An index that does not have it is no place to install it from.
    (root / ".venv" / "fdl-project.json").unlink()
    user.fdl("setup", "-y", cwd=root)
    assert (root / "vendor" / made.name).is_file()


def test_setup_that_cannot_install_the_project_says_why(user, project):
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace('"pytest>=8"', '"no-such-package>=8"'))
    done = user.fdl("setup", "-y", cwd=project, code=1)
    assert "error[project-not-installed]" in done.stderr
    assert "no-such-package" in done.stderr
    assert not (project / ".venv" / "fdl-project.json").exists()


def test_task_that_needs_what_the_project_does_not_bring_is_refused(user, project):
    path = project / "fdl.yml"
    path.write_text(path.read_text().replace("requires: [pytest]", "requires: [pytest, nowhere]"))
    done = user.fdl("-y", "test", cwd=project, code=5)
    assert "error[packages-missing]" in done.stderr
    assert "nowhere" in done.stderr
