"""A task whose Python lacks a package: the question, the answers, and the error without a terminal."""

import io
import sys

import pytest

from fdl_cli.commands import project_setup
from fdl_cli.commands.task_context import surroundings
from fdl_cli.console import Console, Terminal
from fdl_cli.context import Context, directories
from fdl_cli.errors import NeedsTerminalError, OperationFailedError
from fdl_cli.manifest.model import Flags
from fdl_cli.manifest.request import prepare, read_request
from fdl_cli.result import CommandResult
from fdl_cli.torch_setup import setup_command

MANIFEST = """\
requires: [no-such-package]
venv: made
commands:
  train: {run: [python, -c, "print('ran')"], forward: auto}
  free: {run: [python, -c, "print('ran')"]}
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "fdl.yml").write_text(MANIFEST)
    (tmp_path / "fdl.ci.yml").write_text("description: ci\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\n')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("train", "a b"), "fdl -y train 'a b'"),
        (("--env", "ci", "train"), "fdl -y --env ci train"),
        (("ci", "train"), "fdl -y --env ci train"),
        (("run", "--native", "--wait", "train"), "fdl -y --native --wait train"),
        (("--no-append", "train", "-y"), "fdl -y --no-append train -y"),
    ],
)
def test_task_without_a_terminal_is_code_7_with_the_command_to_type(fdl, root, words, command):
    done = fdl(*words, cwd=root)
    assert done.returncode == 7
    assert done.stdout == ""
    assert "error[not-set-up]: `fdl train` needs no-such-package, which `" in done.stderr
    assert f"hint: `{command}` sets the project up first\n" in done.stderr


def test_plan_and_help_of_a_task_need_no_packages(fdl, root):
    assert fdl("-n", "train", cwd=root).returncode == 0
    assert fdl("train", "--help", cwd=root).returncode == 0


def test_task_with_all_packages_runs(fdl, root):
    (root / "fdl.yml").write_text(MANIFEST.replace("no-such-package", "pytest"))
    done = fdl("train", cwd=root)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


class User:
    """Somebody at a terminal, or not, who answers the question."""

    def __init__(self, root, monkeypatch):
        self.root = root
        self.setups = []
        self.installed = []
        monkeypatch.setattr(setup_command, "perform_setup", self.perform)
        monkeypatch.setattr(project_setup, "install_project", self.install)

    def perform(self, context, options, project=None, *, again=False):
        self.setups.append((options, project, again))
        return CommandResult(schema="fdl.setup/1", data=None)

    def install(self, project, folder, request, console):
        self.installed.append((project.name, folder, request.env))
        return ()

    def train(self, typed, *, interactive=True, assume_yes=False, python=None, **flags):
        err = io.StringIO()
        look = Terminal(
            out=io.StringIO(), err=err, stdin=io.StringIO(typed), color_out=False,
            color_err=False, interactive=interactive, assume_yes=assume_yes,
        )  # fmt: skip
        environ = {"PATH": "/nowhere", "FLODL_HOME": str(self.root / "home")}
        context = Context(
            cwd=self.root, environ=environ, directories=directories(environ),
            project_root=self.root, verbosity=0, json=False, interactive=interactive,
            console=Console(look, 0),
        )  # fmt: skip
        request = read_request(
            surroundings(context), ("train",), Flags(**flags), overlay_word=False
        )
        project_setup.set_up_first(context, request, ("no-such-package",), python)
        return err.getvalue()


@pytest.fixture
def user(root, monkeypatch):
    return User(root, monkeypatch)


QUESTION = (
    "`fdl train` needs no-such-package, and no Python was found. Set the project up now? [Y/n] "
)


@pytest.mark.parametrize("typed", ["\n", "y\n", "YES\n"])
def test_set_up_first_on_a_terminal_asks_once_and_sets_up(user, typed):
    assert user.train(typed).count(QUESTION) == 1
    ((options, project, again),) = user.setups
    assert (options.yes, options.env, project.name, again) == (
        True,
        user.root / "made",
        "mine",
        True,
    )


@pytest.mark.parametrize("typed", ["n\n", "no\n", ""])
def test_set_up_first_after_no_changes_nothing(user, typed):
    with pytest.raises(OperationFailedError) as caught:
        user.train(typed)
    assert caught.value.error_id == "declined"
    assert user.setups == []


def test_set_up_first_after_another_word_repeats_the_question(user):
    said = user.train("what\ny\n")
    assert said.count(QUESTION) == 2
    assert "please answer y or n" in said
    assert len(user.setups) == 1


@pytest.mark.parametrize("yes", [{"yes": True}, {"assume_yes": True}])
@pytest.mark.parametrize("interactive", [True, False])
def test_set_up_first_with_yes_asks_nothing(user, yes, interactive):
    assert "[Y/n]" not in user.train("", interactive=interactive, **yes)
    assert len(user.setups) == 1


def test_set_up_first_without_a_terminal_is_an_error(user):
    with pytest.raises(NeedsTerminalError):
        user.train("y\n", interactive=False)
    assert user.setups == []


def test_set_up_first_with_torch_in_the_environment_installs_the_project_alone(user):
    folder = user.root / "made"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / "pyvenv.cfg").touch()
    user.train("y\n", python=str(folder / "bin" / "python"))
    assert user.installed == [("mine", folder, folder)]
    assert user.setups == []
    # Another Python, such as that of the tool, is no place to install a project into.
    user.train("y\n", python="/usr/bin/python")
    assert (len(user.installed), len(user.setups)) == (1, 1)


def test_task_without_a_project_to_install_says_how_to_install_by_hand(fdl, root):
    (root / "pyproject.toml").unlink()
    done = fdl("train", cwd=root)
    assert done.returncode == 5
    assert "error[packages-missing]" in done.stderr
    assert "no pyproject.toml beside fdl.yml describes a project to install" in done.stderr
    assert "-m pip install no-such-package`" in done.stderr


def test_missing_packages_finds_modules_and_distributions(root):
    # PyYAML is a distribution whose module has another name; `json` is a module without metadata.
    (root / "fdl.yml").write_text(MANIFEST.replace("[no-such-package]", "[pyyaml, json, nowhere]"))
    (root / "bin").mkdir()
    python = root / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environ = {"PATH": str(root / "bin")}
    context = Context(
        cwd=root, environ=environ, directories=directories(environ), project_root=root,
        verbosity=0, json=False, interactive=False,
        console=Console(Terminal(out=io.StringIO(), err=io.StringIO(), stdin=io.StringIO()), 0),
    )  # fmt: skip
    around = surroundings(context)
    request = read_request(around, ("train",), Flags(), overlay_word=False)
    assert project_setup.missing_packages(context, request, prepare(request, around)) == (
        "nowhere",
    )
