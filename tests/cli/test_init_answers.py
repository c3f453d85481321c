"""`fdl init` asks for author, licence and Python on a terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
import tomllib

import pytest

from fdl_cli.scaffold.metadata import PYTHONS

FDL = [sys.executable, "-P", "-m", "fdl_cli"]
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
GIT = "[user]\n\tname = Jane Doe\n\temail = jane@example.org\n"


def project_of(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


@pytest.fixture
def at_terminal(tmp_path):
    """Run `fdl` at a terminal that types these words; return what the terminal shows and the exit code."""
    home = tmp_path / "typing-home"
    home.mkdir()
    (home / ".gitconfig").write_text(GIT)

    def run(*words, typed, **environ):
        master, slave = pty.openpty()
        os.write(master, typed.encode())
        process = subprocess.Popen(
            [*FDL, *words], stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path,
            env={**os.environ, "HOME": str(home), "TERM": "dumb", **environ}, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        shown = b""
        while True:
            try:
                chunk = os.read(master, 4096)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        os.close(master)
        return shown.decode(), process.wait(60)

    return run


def test_init_at_a_terminal_asks_and_writes_the_answers(at_terminal, tmp_path):
    typed = f"Jo <jo@example.org>\nmit\n{OWN}\n"
    shown, code = at_terminal("init", "p", "--vcs", "none", typed=typed)
    assert code == 0, shown
    assert "author, as NAME <EMAIL>, - for none [Jane Doe <jane@example.org>]: " in shown
    project = project_of(tmp_path / "p")
    assert project["authors"] == [{"name": "Jo", "email": "jo@example.org"}]
    assert (project["license"], project["requires-python"]) == ("MIT", f">={OWN}")


def test_init_at_a_terminal_with_empty_lines_takes_the_author_of_git(at_terminal, tmp_path):
    shown, code = at_terminal("init", "p", "--vcs", "none", typed="\n\n\n")
    assert code == 0, shown
    project = project_of(tmp_path / "p")
    assert project["authors"] == [{"name": "Jane Doe", "email": "jane@example.org"}]
    assert "license" not in project
    assert project["requires-python"] == f">={PYTHONS[0]}"


def test_init_at_a_terminal_asks_again_after_an_answer_that_it_cannot_use(at_terminal, tmp_path):
    shown, code = at_terminal("init", "p", "--vcs", "none", typed="-\nmti\nMIT\n2.7\n\n")
    assert code == 0, shown
    assert (
        "`mti` is not the SPDX identifier of a licence that fdl knows; try `--license MIT`"
        in shown
    )
    assert "`2.7` is not a Python that flodl runs on" in shown
    assert "authors" not in project_of(tmp_path / "p")
    assert project_of(tmp_path / "p")["license"] == "MIT"


def test_init_at_a_terminal_whose_input_ends_takes_the_usual_answers(at_terminal, tmp_path):
    shown, code = at_terminal("init", "p", "--vcs", "none", typed="\x04\x04\x04")
    assert code == 0, shown
    assert project_of(tmp_path / "p")["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (("--yes",), {}), (("--license", "MIT"), {}), (("--dry-run",), {}), (("--no-input",), {}),
        (("--json",), {}), ((), {"FDL_YES": "1"}),
    ],
    ids=["yes", "an option", "dry-run", "no-input", "json", "FDL_YES"],
)  # fmt: skip
def test_init_at_a_terminal_that_may_not_ask_asks_nothing(at_terminal, tmp_path, words, environ):
    shown, code = at_terminal("init", "p", "--vcs", "none", *words, typed="", **environ)
    assert code == 0, shown
    assert "author, as" not in shown
    if "--dry-run" not in words:
        assert "authors" not in project_of(tmp_path / "p")


def test_init_in_a_pipe_writes_the_options_and_asks_nothing(fdl, tmp_path):
    done = fdl(
        "init", "p", "--vcs", "none", "--author", "Jo", "--license", "apache-2.0", "--python", OWN
    )
    assert done.returncode == 0, done.stderr
    assert "author, as" not in done.stderr
    project = project_of(tmp_path / "p")
    assert project["authors"] == [{"name": "Jo"}]
    assert (project["license"], project["requires-python"]) == ("Apache-2.0", f">={OWN}")
    assert "Apache License" in (tmp_path / "p" / "LICENSE").read_text("utf-8")
    assert fdl("init", "--update", "--check", cwd=tmp_path / "p").returncode == 0
    assert fdl("init", "q", "--vcs", "none").returncode == 0
    assert not {"authors", "license"} & project_of(tmp_path / "q").keys()


def test_init_with_a_licence_whose_text_fdl_lacks_warns(fdl, tmp_path):
    done = fdl("init", "p", "--vcs", "none", "--license", "EUPL-1.2")
    assert done.returncode == 0
    assert "warning[init-license-text]" in done.stderr
    assert not (tmp_path / "p" / "LICENSE").exists()


@pytest.mark.skipif(OWN not in PYTHONS[:-1], reason="no newer Python is supported")
def test_init_for_a_newer_python_than_that_of_fdl_says_how_to_set_up(fdl):
    newest = PYTHONS[-1]
    done = fdl("init", "p", "--vcs", "none", "--python", newest)
    assert "warning[init-python-newer]" in done.stderr
    assert "fdl setup --python " in done.stderr
    assert "init-python-newer" not in fdl("init", "q", "--docker", "--python", newest).stderr
    assert "init-python-newer" not in fdl("init", "r", "--python", OWN).stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--author", "a<b", "init-author"), ("--license", "mti", "init-license"),
        ("--python", "3.9", "init-python"),
    ],
)  # fmt: skip
def test_init_with_a_wrong_option_writes_nothing(fdl, tmp_path, option, value, said):
    done = fdl("init", "p", option, value)
    assert (done.returncode, f"error[{said}]" in done.stderr) == (2, True)
    assert not (tmp_path / "p").exists()
    done = fdl("init", "--update", option, value)
    assert (done.returncode, "error[init-usage]" in done.stderr) == (2, True)
