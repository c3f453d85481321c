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
import urllib.request
import venv
import zipfile
from multiprocessing.connection import wait

import pytest
import yaml
from fake_torch import serve_index, wheel

from fdl_cli import __version__
from tests.cli.test_user_python import belongs_to_torch, make_environment
from tests.containers import host_made

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.timeout(600),  # each test installs thousands of files
    pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX"),
]
OFFICIAL = "https://download.pytorch.org/whl/cpu"
STAR_PACKAGE = {
    "__init__.py": "from .model import Net\n",
    "parts.py": "import torch\nfrom torch import nn\n\n\nclass Base(nn.Module):\n    pass\n",
    "model.py": (
        "from .parts import *\n\n\nclass Net(Base):\n    def __init__(self):\n"
        "        super().__init__()\n        self.layer = nn.Linear(4, 2)\n\n"
        "    def forward(self, x):\n        return torch.relu(self.layer(x))\n"
    ),
}
BUILD = ("--variant", host_made.torch_variant())
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
    pip_install(folder / "bin" / "python", wheelhouse, "pip", *words)
    return folder / "bin" / "fdl"


def pip_install(python, wheelhouse, *words):
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index",
         "--find-links", wheelhouse, "--disable-pip-version-check", *words],
        check=True, timeout=300, cwd=python.parent,
    )  # fmt: skip


@pytest.fixture(scope="module")
def machine(tmp_path_factory, wheelhouse):
    """The wheel, and a tool that was installed from it."""
    folder = tmp_path_factory.mktemp("machine")
    (made,) = wheelhouse.glob("flodl-*.whl")
    own = folder / made.name
    shutil.copy(made, own)
    host_made.fill_pip(wheelhouse)
    return own, make_tool(folder / "tool", wheelhouse, f"{own}[cli]")


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


def test_wheel_without_extras_brings_no_torch_and_five_small_packages(
    machine, wheelhouse, tmp_path
):
    own, _ = machine
    runtime = make_tool(tmp_path / "runtime", wheelhouse, own)
    listed = subprocess.run(
        [runtime.parent / "python", "-m", "pip", "list", "--format=json"],
        check=True, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    names = {each["name"].lower() for each in json.loads(listed.stdout)} - {"flodl", "pip"}
    assert names == {"markdown-it-py", "mdurl", "pygments", "rich", "xxhash"}
    done = subprocess.run([runtime], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 5
    assert "pip install 'flodl[cli]'" in done.stderr


def test_new_project_of_a_tool_whose_wheel_is_gone_holds_one_with_the_same_files(
    wheelhouse, index, tmp_path
):
    (made,) = wheelhouse.glob("flodl-*.whl")
    host_made.fill_pip(wheelhouse)
    gone = tmp_path / made.name
    shutil.copy(made, gone)
    tool = make_tool(tmp_path / "tool", wheelhouse, f"{gone}[cli]")
    gone.unlink()
    (tmp_path / "home").mkdir()
    Machine(tool, index, tmp_path / "home").fdl("init", "my-proj", cwd=tmp_path)
    packed = tmp_path / "my-proj" / "vendor" / made.name
    assert contents(packed) == contents(made)
    again = make_tool(tmp_path / "again", wheelhouse, f"{packed}[cli]")
    version = subprocess.run([again, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("fdl ")


def test_setup_by_a_tool_from_a_checkout_builds_the_wheel(wheelhouse, index, tmp_path):
    (made,) = wheelhouse.glob("flodl-*.whl")
    host_made.fill_pip(wheelhouse)
    tool = make_tool(tmp_path / "tool", wheelhouse, "-e", f"{host_made.ROOT}[cli]")
    (tmp_path / "home").mkdir()
    user = Machine(tool, index, tmp_path / "home")
    user.fdl("init", "my-proj", cwd=tmp_path)
    root = tmp_path / "my-proj"
    make_environment(root / ".venv", belongs_to_torch, tool=False)
    without_tools(root)
    user.fdl("setup", "-y", cwd=root)
    assert contents(root / "vendor" / made.name) == contents(made)


def without_tools(root):
    """Take the development tools out of a project: they take long to install."""
    path = root / "pyproject.toml"
    path.write_text(re.sub(r"^dev = .*\n", "", path.read_text(), flags=re.MULTILINE))


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
    user.fdl("setup", "-y", *BUILD, cwd=project)
    data = json.loads(user.fdl("setup", *BUILD, "--json", cwd=project).stdout)["data"]
    assert (data["changed"], data["actions"]) == (False, [])


def test_setup_after_a_new_dependency_installs_the_project_again(user, project):
    said = json.loads(user.fdl("setup", "--dry-run", "--json", cwd=project).stdout)["data"]
    assert "install-project" in [each["kind"] for each in said["actions"]]
    user.fdl("setup", "--yes", cwd=project)
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace('"pytest>=8"', '"pytest>=8", "pluggy>=1"'))
    said = json.loads(user.fdl("setup", "--dry-run", "--json", cwd=project).stdout)["data"]
    assert [each["kind"] for each in said["actions"]] == ["install-project"]


def test_setup_with_lock_writes_the_versions_that_are_installed(user, project):
    path = project / "constraints.txt"
    first = path.read_text()
    path.write_text(re.sub(r"^pytest==.*$", "pytest==8.0.0", first, flags=re.MULTILINE))
    user.fdl("setup", "--yes", *BUILD, cwd=project, code=1)  # the index has no such version
    done = json.loads(user.fdl("setup", "--yes", *BUILD, "--lock", "--json", cwd=project).stdout)
    lock = done["data"]["lock"]
    changed = {each["name"]: (each["before"], each["after"]) for each in lock["changed"]}
    pins = dict(re.findall(r"^([^#\s]+)==(\S+)$", path.read_text(), re.MULTILINE))
    assert changed["pytest"] == ("8.0.0", pins["pytest"])
    assert f"pytest=={pins['pytest']}" in first
    assert changed["mypy"][1] is None  # no longer required
    assert len(pins) == lock["count"]
    listed = subprocess.run(
        [project / ".venv" / "bin" / "python", "-c",
         ("import json, sys; from importlib.metadata import version;"
         "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"), *pins],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(listed.stdout) == pins
    assert "nothing to do" in user.fdl("setup", "--yes", *BUILD, cwd=project).stdout


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
    tool = make_tool(tmp_path / "tool", wheelhouse, "flodl[cli]")
    (tmp_path / "home").mkdir()
    user = Machine(tool, index, tmp_path / "home")
    user.fdl("init", "my-proj", cwd=tmp_path)
    root = tmp_path / "my-proj"
    assert not (root / "vendor").exists()
    make_environment(root / ".venv", belongs_to_torch, tool=False)
    without_tools(root)
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


def test_workflow_of_a_new_project_passes_step_by_step(user, wheelhouse, index, tmp_path):
    user.fdl("init", "my-proj", cwd=tmp_path)
    root = tmp_path / "my-proj"
    workflow = yaml.safe_load((root / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert steps[0].endswith(f"torch numpy --index-url {OFFICIAL}")
    steps[0] = steps[0].replace(OFFICIAL, f"{index.url}/simple")  # there is no network here
    assert [step.split()[2] for step in steps] == [
        "pip", "pip", "ruff", "ruff", "mypy", "pytest", "my_proj",
    ]  # fmt: skip
    # What `actions/setup-python` leaves: a Python with pip. The real torch is there as links.
    python = make_environment(tmp_path / "runner", belongs_to_torch, tool=False)
    pip_install(python, wheelhouse, "pip")
    environ = {**user.environ, "PATH": f"{python.parent}:/usr/bin:/bin", "CI": "true"}
    for step in steps:
        done = subprocess.run(
            ["bash", "-e", "-c", step], cwd=root, env=environ, timeout=300,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, step + done.stdout + done.stderr
        if " pytest" in step:
            assert " passed" in done.stdout


def test_release_tests_a_wheel_that_ports_and_trains(machine, user, wheelhouse, index, tmp_path):
    own, _ = machine
    workflow = yaml.safe_load(
        (host_made.ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    )
    jobs = workflow["jobs"]
    assert [jobs[name].get("needs") for name in ("build", "test", "publish")] == [
        None, "build", "test",
    ]  # fmt: skip
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    steps = [step["run"].replace(OFFICIAL, f"{index.url}/simple")
             for step in jobs["test"]["steps"] if "run" in step]  # fmt: skip
    folder = tmp_path / "work"
    (folder / "dist").mkdir(parents=True)
    shutil.copy(own, folder / "dist")
    (folder / "source").mkdir()
    (folder / "source" / "examples").symlink_to(host_made.ROOT / "examples")
    python = make_environment(tmp_path / "runner", belongs_to_torch, tool=False)
    pip_install(python, wheelhouse, "pip")
    environ = {**user.environ, "PATH": f"{python.parent}:/usr/bin:/bin", "CI": "true"}
    for step in steps:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step], cwd=folder, env=environ, timeout=500,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, step + done.stdout + done.stderr


def test_tag_of_a_release_is_the_version():
    """The step that compares them reads the version as Python does."""
    workflow = yaml.safe_load(
        (host_made.ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    )
    (step,) = [each["run"] for each in workflow["jobs"]["build"]["steps"] if "if" in each]
    for tag, code in ((f"v{__version__}", 0), ("v9.9.9", 1)):
        done = subprocess.run(
            ["bash", "-e", "-c", step], cwd=host_made.ROOT, check=False, timeout=60,
            env={"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": tag},
        )  # fmt: skip
        assert done.returncode == code


def test_commands_of_a_wheel_use_the_python_of_the_project(user, project):
    user.fdl("-y", "train", *SMALL, cwd=project)
    (run,) = (project / "runs").iterdir()
    # The task programs take the run that they are given.
    assert run.name in user.fdl("eval", run.name, cwd=project).stdout
    user.fdl("resume", run.name, "train.epochs=2", cwd=project)
    assert [path.name for path in (project / "runs").iterdir()] == [run.name]
    # A single file sees the package that it lies in.
    package = project / "src" / "zoo"
    package.mkdir()
    for name, text in STAR_PACKAGE.items():
        (package / name).write_text(text)
    answer = json.loads(user.fdl("port", "src/zoo/model.py", "--json", cwd=project).stdout)
    (found,) = answer["data"]["files"][0]["classes"]
    assert (found["status"], found["verify"]["status"]) == ("graph", "equal")
    words = ("port", "--verify-only", "src/zoo/model.py", "src/zoo/model_flodl.py", "--json")
    compared = json.loads(user.fdl(*words, cwd=project).stdout)["data"]
    assert compared["files"][0]["classes"][0]["verify"]["status"] == "equal"
    words = ("graph", "src/zoo/model_flodl.py:Net", "--example", "Net(): torch.ones(1, 4)")
    assert json.loads(user.fdl(*words, "--json", cwd=project).stdout)["data"]["title"] == "Net"
    require_monitor_that_ends_with_its_server(user, project)
    saved = max((run / "checkpoints").glob("*.fdl"))
    listed = json.loads(user.fdl("checkpoint", "show", str(saved), "--json", cwd=project).stdout)
    assert listed["ok"] is True
    words = ("checkpoint", "migrate", str(saved), "new.fdl", "--json")
    assert json.loads(user.fdl(*words, cwd=project).stdout)["ok"] is True
    found = json.loads(user.fdl("diagnose", "--json", cwd=project).stdout)["data"]["checks"]
    checks = {each["id"]: each for each in found}
    assert str(project / ".venv") in checks["py.venv"]["message"]
    assert checks["torch.present"]["ok"] is True


def require_monitor_that_ends_with_its_server(user, project):
    child = subprocess.Popen(
        [user.tool, "monitor", "--port", "0"], cwd=project, env=user.environ,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    url = child.stdout.readline().strip()
    assert child.stdout.readline() == "showing 1 run; Ctrl-C ends it\n"
    child.terminate()
    child.communicate(timeout=20)  # returns when the server has closed its output, too
    assert child.returncode == 143
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


@pytest.mark.parametrize("name", ["fdl.yaml", "fdl.json", "fdl.yml.example"])
def test_manifest_of_another_name_is_hinted_at_by_a_wheel(user, tmp_path, name):
    (tmp_path / name).write_text('{"commands": {"hello": {"run": "echo hello"}}}')
    done = user.fdl("hello", cwd=tmp_path, code=2)
    assert f"{name} fdl.yml`: only `fdl.yml` is read" in done.stderr


def test_sub_project_of_tasks_alone_runs_from_a_wheel(user, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "fdl.yml").write_text("commands: {sub: {path: sub}}\n")
    (tmp_path / "sub" / "fdl.yml").write_text("commands: {hello: {run: echo hello}}\n")
    assert user.fdl("sub", "hello", cwd=tmp_path).stdout == "hello\n"


def test_add_flodl_hf_of_a_wheel_adds_the_encoder(user, tmp_path):
    user.fdl("init", "one", "--vcs", "none", cwd=tmp_path)
    user.fdl("add", "flodl-hf", cwd=tmp_path / "one")
    assert (tmp_path / "one" / "src" / "one" / "encoder.py").is_file()


def test_plan_of_a_wheel_for_machines_of_a_file(user, tmp_path):
    def plan(*words, code=0, **facts):
        machine = {"platform": "linux", "machine": "x86_64", "glibc": "2.35", "python": "3.12"}
        (tmp_path / "facts.json").write_text(json.dumps(machine | facts))
        words = ("setup", "--dry-run", "--facts", "facts.json", "--json", *words)
        return json.loads(user.fdl(*words, cwd=tmp_path, code=code).stdout)

    gpu = {"name": "NVIDIA GeForce RTX 4090", "compute_cap": "8.9", "memory_mib": 24564}
    old = {"driver": "418.95.05", "cuda_driver_version": "10.1", "gpus": [gpu]}
    assert plan(nvidia=old, code=5)["error"]["id"] == "driver-too-old"
    assert plan("--cpu", nvidia=old)["data"]["choice"]["variant"] == "cpu"
    new = old | {"driver": "580.65.06", "cuda_driver_version": "13.0"}
    choice = plan(platform="windows", machine="ARM64", nvidia=new)["data"]["choice"]
    assert choice["variant"] == "cpu"
    assert "no_build_for_gpu" in choice["warnings"]
    choice = plan(index="unreachable")["data"]["choice"]
    assert "index_unreachable" in choice["warnings"]
    assert choice["verified"] is False


def test_setup_of_a_wheel_with_an_unusable_home_names_it(user, tmp_path):
    (tmp_path / "file").write_text("")
    words = ("setup", "-y", "--variant", host_made.torch_variant())
    done = user.fdl(*words, cwd=tmp_path, code=5, HOME=str(tmp_path / "file"))
    assert "error[internal]" not in done.stderr
    assert str(tmp_path / "file") in done.stderr
