"""How a project is installed: what pip gets, where flodl comes from, and when nothing is to be done."""

import json
import subprocess
from pathlib import Path

import pytest

from fdl_cli.console import Console, Terminal
from fdl_cli.errors import ConfigError, EnvironmentLackingError, OperationFailedError
from fdl_cli.net.simple_index import IndexLink
from fdl_cli.system.python_env import environment_at
from fdl_cli.torch_setup.install import project_install
from fdl_cli.torch_setup.install.own_wheel import put_wheel
from fdl_cli.torch_setup.install.pip_tool import Pip
from fdl_cli.torch_setup.install.project_install import (
    install_project,
    is_installed,
    read_installable,
)
from fdl_cli.torch_setup.setup_command import request_of
from fdl_cli.torch_setup.setup_data import LockData, SetupOptions, VersionChange
from tests.torch_setup.test_own_wheel import FILES, NAME, install, own

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
[project]
name = "mine"
version = "1"
dependencies = ["torch>=2.6"]
[project.optional-dependencies]
dev = ["pytest"]
"""


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "project"
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").touch()
    (root / ".venv" / "pyvenv.cfg").write_text("version = 3.11.7\n")
    (root / "pyproject.toml").write_text(PYPROJECT)
    return root


class Machine:
    """A tool that is installed in some way, and a pip that only notes what it gets."""

    def __init__(self, root, tmp_path, monkeypatch):
        self.root = root
        self.own = own(install(tmp_path / "tool", FILES), {"url": "file:///gone.whl"})
        self.links = ()
        self.stderr = ""
        self.commands = []
        pip = Pip(words=("pip",), interpreter=Path("python"))
        monkeypatch.setattr(project_install, "own_installation", lambda: self.own)
        monkeypatch.setattr(project_install, "find_pip", lambda environment: pip)
        monkeypatch.setattr(project_install, "configured_links", self.configured)
        monkeypatch.setattr(project_install, "run", self.run)

    def configured(self, pip, project):
        if not self.links:
            raise EnvironmentLackingError(
                error_id="configured-index-empty", message="none", hint=""
            )
        return tuple(
            IndexLink(name=name, url=f"https://host/{name}", sha256=None, size=None, yanked=False)
            for name in self.links
        )

    def run(self, command, **options):
        assert options["cwd"] == self.root
        self.commands.append([str(word) for word in command])
        code = 1 if self.stderr else 0
        return subprocess.CompletedProcess(command, code, "", self.stderr)

    def holds(self, files):
        install(self.root / ".venv" / "lib" / "python3.11" / "site-packages", files)

    def install(self, **options):
        return self.install_whole(**options).written

    def install_whole(self, **options):
        import io

        console = Console(Terminal(out=io.StringIO(), err=io.StringIO(), stdin=io.StringIO()), 0)
        return install_project(
            read_installable(self.root), self.root / ".venv", request_of(SetupOptions(**options)),
            console,
        )  # fmt: skip


@pytest.fixture
def machine(root, tmp_path, monkeypatch):
    return Machine(root, tmp_path, monkeypatch)


def test_install_project_gives_pip_the_wheel_of_the_tool_and_the_constraints(machine, root):
    machine.holds(FILES)
    (root / "torch-constraints.txt").write_text("torch==2.13.0\n")
    written = machine.install()
    wheel = str(root / "vendor" / NAME)
    (command,) = machine.commands
    assert command[-5:] == ["--find-links", str(root / "vendor"), wheel, "-e", ".[dev]"]
    assert command[command.index("-c") + 1] == "torch-constraints.txt"
    assert written == (wheel, str(root / ".venv" / "fdl-project.json"))
    assert is_installed(read_installable(root), environment_at(root / ".venv", ""))


def test_install_project_takes_the_versions_of_the_lock(machine, root):
    (root / "constraints.txt").write_text("pytest==9.2.0\n")
    (root / "torch-constraints.txt").write_text("torch==2.13.0\n")
    machine.install()
    command = " ".join(machine.commands[0])
    assert "-c torch-constraints.txt -c constraints.txt" in command
    assert "--upgrade" not in command
    assert is_installed(read_installable(root), environment_at(root / ".venv", ""))
    (root / "constraints.txt").write_text("pytest==9.1.0\n")
    assert not is_installed(read_installable(root), environment_at(root / ".venv", ""))


def test_install_project_that_locks_upgrades_all_but_torch_and_is_done(machine, root, monkeypatch):
    (root / "constraints.txt").write_text("pytest==9.1.0\n")
    kept = []

    def run(command, **options):
        words = [str(word) for word in command]
        files = [root / words[at + 1] for at, word in enumerate(words) if word == "-c"]
        if words[-2] == "-e":
            kept.append([path.read_text() for path in files])
        return machine.run(command, **options)

    def lock(where, extra, pip):
        assert (where, extra) == (root, "dev")
        (root / "constraints.txt").write_text("pytest==9.2.0\n")
        change = VersionChange(name="pytest", before="9.1.0", after="9.2.0")
        return LockData(path=str(root / "constraints.txt"), count=1, changed=(change,))

    monkeypatch.setattr(project_install, "run", run)
    monkeypatch.setattr(project_install, "write_lock", lock)
    machine.holds({"torch/version.py": "__version__ = '2.13.0+cpu'\ncuda = None\n"})
    done = machine.install_whole(lock=True)
    assert "--upgrade --upgrade-strategy eager" in " ".join(machine.commands[0])
    assert kept[0] == ["torch==2.13.0\n"]  # not the lock, and not another torch
    assert done.lock is not None
    assert done.lock.path in done.written
    assert is_installed(read_installable(root), environment_at(root / ".venv", ""))
    (root / "torch-constraints.txt").write_text("torch==2.13.0+cpu\n")
    machine.install(lock=True)
    assert kept[-1] == ["torch==2.13.0+cpu\n"]


def test_install_project_replaces_a_flodl_of_the_same_version_with_other_files(machine, root):
    machine.holds({**FILES, "flodl/__init__.py": "x = 0\n"})
    machine.install()
    assert len(machine.commands) == 2
    assert machine.commands[1][-2:] == ["--force-reinstall", str(root / "vendor" / NAME)]
    assert "--no-deps" in machine.commands[1]


def test_install_project_takes_flodl_from_an_index_that_has_this_version(machine, root):
    machine.own = own(machine.own.distribution, None)
    machine.links = ("flodl-0.1.0-py3-none-any.whl",)
    machine.install()
    assert not (root / "vendor").exists()
    assert not any(NAME in word for word in machine.commands[0])


@pytest.mark.parametrize("links", [(), ("flodl-0.1.0rc1-py3-none-any.whl", "flodl-0.1.01.tar.gz")])
def test_install_project_without_this_version_on_the_index_uses_vendor(machine, root, links):
    machine.own = own(machine.own.distribution, None)
    machine.links = links
    machine.install()
    assert str(root / "vendor" / NAME) in machine.commands[0]


def test_install_project_of_a_tool_that_is_only_on_the_path_uses_the_wheel_that_is_there(
    machine, root
):
    put_wheel(root, machine.own)
    machine.own = None
    machine.install()
    assert str(root / "vendor" / NAME) in machine.commands[0]


def test_install_project_before_any_setup_has_no_constraints(machine):
    machine.install()
    assert "-c" not in machine.commands[0]


def test_install_project_offline_asks_no_index(machine, tmp_path):
    machine.own = own(machine.own.distribution, None)
    machine.links = ("flodl-0.1.0-py3-none-any.whl",)
    machine.install(offline=True, find_links=(tmp_path / "wheels",), proxy="http://proxy")
    command = machine.commands[0]
    assert "--no-index" in command
    assert command[command.index("--find-links") + 1] == str(tmp_path / "wheels")
    assert command[command.index("--proxy") + 1] == "http://proxy"


def test_install_project_that_fails_names_the_cause_and_leaves_no_record(machine, root):
    machine.stderr = "ERROR: No matching distribution found for nowhere\nnote: see above\n"
    with pytest.raises(OperationFailedError) as caught:
        machine.install()
    assert caught.value.error_id == "project-not-installed"
    assert caught.value.causes == ("ERROR: No matching distribution found for nowhere",)
    assert not is_installed(read_installable(root), environment_at(root / ".venv", ""))


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ('"torch>=2.6"', '"torch>=2.6", "einops"', True),
        ('"pytest"', '"pytest", "ruff"', True),
        ('"hatchling"', '"setuptools"', True),
        ('version = "1"', 'version = "2"', False),
    ],
)
def test_is_installed_is_false_after_a_change_of_what_it_needs(machine, root, old, new, again):
    machine.install()
    path = root / "pyproject.toml"
    path.write_text(path.read_text().replace(old, new))
    assert is_installed(read_installable(root), environment_at(root / ".venv", "")) is not again


def test_is_installed_is_false_after_an_update_of_the_tool(machine, root, tmp_path):
    machine.install()
    files = {**FILES, "flodl/__init__.py": "x = 3\n"}
    machine.own = own(install(tmp_path / "newer", files), None)
    assert not is_installed(read_installable(root), environment_at(root / ".venv", ""))


@pytest.mark.parametrize("text", ["", "[]", '{"projects": 3}', "{"])
def test_is_installed_with_a_damaged_record_is_false(machine, root, text):
    (root / ".venv" / "fdl-project.json").write_text(text)
    assert not is_installed(read_installable(root), environment_at(root / ".venv", ""))


def test_record_of_one_environment_holds_several_projects(machine, root):
    (root / ".venv" / "fdl-project.json").write_text(
        json.dumps({"schema": "fdl.project-record/1", "projects": {"/other": "x"}})
    )
    machine.install()
    record = json.loads((root / ".venv" / "fdl-project.json").read_text())
    assert set(record["projects"]) == {"/other", str(root)}


@pytest.mark.parametrize("text", [None, "", "[tool.ruff]\nline-length = 99\n", "[project]\n"])
def test_read_installable_without_a_project_is_none(tmp_path, text):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert read_installable(tmp_path) is None


def test_read_installable_of_broken_toml_names_the_file(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(ConfigError) as caught:
        read_installable(tmp_path)
    assert caught.value.file == str(tmp_path / "pyproject.toml")


def test_project_without_development_tools_is_installed_alone(machine, root):
    (root / "pyproject.toml").write_text(PYPROJECT.partition("[project.optional")[0])
    machine.install()
    assert machine.commands[0][-2:] == ["-e", "."]
