"""Completion in real shells, its cost, and the files that `fdl autocomplete` writes."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from fdl_cli.completion.scripts import SCRIPTS, SHELLS

MANIFEST = """
description: A project
commands:
  greet:
    description: Say hello, politely
    run: echo hello
  paint:
    description: Paint it
    run: echo paint
"""


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "deep").mkdir(parents=True)
    (root / "fdl.yml").write_text(MANIFEST)
    (root / "fdl.ci.yml").write_text("commands:\n  greet:\n    run: echo ci\n")
    (root / "deep" / "modelfile.py").write_text("")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    command = bin_folder / "fdl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m fdl_cli "$@"\n')
    command.chmod(0o755)
    return root


@pytest.fixture
def environ(tmp_path):
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "FLODL_HOME": str(tmp_path / "flodl"),
        "TERM": "dumb",
        "PYTHONWARNINGS": "ignore",
    }


@pytest.fixture(scope="session")
def warm_home(tmp_path_factory):
    """A home where the table of options is collected once."""
    return {"FLODL_HOME": str(tmp_path_factory.mktemp("warm"))}


def ask(fdl, folder, *words, shell="zsh", **environ):
    done = fdl("__complete", shell, *words, cwd=folder, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gree",), ["greet"]),
        (("run", "p"), ["paint"]),
        (("why", "g"), ["greet"]),
        (("--env", ""), ["ci"]),
        (("--color", "al"), ["always"]),
        (("port", "--training", ""), ["keep", "setup", "builder"]),
        (("port", "--training=k"), ["--training=keep"]),
        (("port", "--verify-o"), ["--verify-only"]),
        (("skill", "rem"), ["remove"]),
        (("skill", "install", "--for", "c"), ["claude", "cursor"]),
        (("add", "dev"), ["devcontainer"]),
        (("help", "exit"), ["exit-codes"]),
        (("nonsense-task", "x"), [":files"]),
        (("port", "mo"), [":files"]),
    ],
    ids=" ".join,
)
def test_answers(fdl, project, warm_home, words, expected):
    assert ask(fdl, project / "deep", *words, **warm_home) == expected


def test_tasks_are_read_anew_and_come_first(fdl, project, warm_home):
    home = warm_home
    assert ask(fdl, project, "", **home)[:2] == ["greet", "paint"]
    manifest = project / "fdl.yml"
    manifest.write_text(MANIFEST + "  grow:\n    run: echo\n")
    assert ask(fdl, project, "gr", **home)[:2] == ["greet", "grow"]
    manifest.write_text("commands: [broken")
    assert ask(fdl, project, "ini", **home) == ["init"]


@pytest.mark.slow
def test_names_of_the_reference(fdl, project, warm_home):
    home = warm_home
    fdl("api-ref", "Flow", **home)
    assert "FlowBuilder.through" in ask(fdl, project, "api-ref", "FlowBuilder.thr", **home)


@pytest.mark.slow
def test_a_stale_table_of_options_is_collected_again(fdl, project, tmp_path):
    home = {"FLODL_HOME": str(tmp_path / "flodl")}
    ask(fdl, project, "port", "--di", **home)
    path = tmp_path / "flodl/cache/completion/surface.json"
    document = json.loads(path.read_text())
    document["commands"]["port"]["options"] = []
    path.write_text(json.dumps(document))
    assert ask(fdl, project, "port", "--di", **home) == []
    document["state"] = "old"
    path.write_text(json.dumps(document))
    assert ask(fdl, project, "port", "--di", **home) == ["--diff"]
    path.write_text("{")
    assert ask(fdl, project, "port", "--di", **home) == ["--diff"]


BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_fdl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gree",), ["greet"]),
        (("port", "--color", "=", "al"), ["always"]),
        (("port", "--out"), ["--output"]),
        (("port", "deep/model"), ["deep/modelfile.py"]),
    ],
    ids=" ".join,
)
def test_bash(project, environ, warm_home, tmp_path, words, expected):
    environ |= warm_home
    script = tmp_path / "fdl.bash"
    script.write_text(SCRIPTS["bash"])
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", script, "fdl", *words],
        cwd=project, env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == expected, done.stderr


def typed(argv, environ, folder, text, wanted, seconds=20.0):
    """Type into a shell on a terminal and return the screen, once it shows what is wanted."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(argv[0], argv, environ)
    screen, sent, end = "", 0, time.monotonic() + seconds
    try:
        while time.monotonic() < end and wanted not in screen:
            if select.select([master], [], [], 0.3)[0]:
                try:
                    screen += os.read(master, 4096).decode(errors="replace")
                except OSError:
                    break
            elif sent < len(text) and "READY" in screen:
                os.write(master, text[sent].encode())
                sent += 1
        return screen
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(master)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("fdl gree\t", "fdl greet"),
        ("fdl port --verify-o\t", "--verify-only"),
        ("fdl g\t", "politely"),
    ],
)
def test_zsh(project, environ, tmp_path, line, wanted):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    home = tmp_path / "home"
    functions = home / "functions"
    functions.mkdir(parents=True)
    (functions / "_fdl").write_text(SCRIPTS["zsh"])
    extra = "  goal:\n    description: Reach it\n    run: echo\n"
    (project / "fdl.yml").write_text(MANIFEST + extra)
    (home / ".zshrc").write_text(
        f"fpath=({functions} $fpath)\nautoload -Uz compinit && compinit -u\nPS1='READY> '\n"
    )
    environ |= {"TERM": "xterm", "COLUMNS": "100"}
    screen = typed(["zsh", "-i"], environ, project, line, wanted)
    assert wanted in screen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [("fdl gree", "greet\tSay hello, politely"), ("fdl port --verify-o", "--verify-only"),
     ("fdl port deep/mod", "deep/modelfile.py"), ("fdl --color=al", "--color=always")],
)  # fmt: skip
def test_fish(project, environ, tmp_path, line, wanted):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "fdl.fish"
    script.write_text(SCRIPTS["fish"])
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        cwd=project, env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert wanted in done.stdout, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_runs_nothing_when_the_shell_starts(fdl, shell):
    done = fdl("completions", shell)
    assert (done.returncode, done.stdout) == (0, SCRIPTS[shell])
    outside = [
        line for line in done.stdout.splitlines() if line and not line.startswith((" ", "\t"))
    ]
    assert not any("__complete" in line and "function" not in line for line in outside
                   if "complete -c fdl" not in line)  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.slow
def test_autocomplete_writes_one_file_and_takes_it_away(fdl, tmp_path, shell):
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(home)}
    assert fdl("autocomplete", shell, "--dry-run", **environ).returncode == 0
    assert list(home.iterdir()) == []
    done = fdl("autocomplete", shell, **environ)
    assert done.returncode == 0
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path.read_text() for path in files] == [SCRIPTS[shell]]
    assert bool(done.stdout) == (shell in ("zsh", "powershell"))
    assert "same" in fdl("autocomplete", shell, **environ).stderr
    files[0].write_text("# an older one: fdl __complete")
    assert "update" in fdl("autocomplete", shell, **environ).stderr
    assert fdl("autocomplete", shell, "--remove", **environ).returncode == 0
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert "absent" in fdl("autocomplete", shell, "--remove", **environ).stderr
    files[0].write_text("somebody else's")
    for words in ((), ("--remove",)):
        assert fdl("autocomplete", shell, *words, **environ).returncode == 6
    assert files[0].read_text() == "somebody else's"


def test_the_shell_is_found_or_must_be_named(fdl, tmp_path):
    home = str(tmp_path)
    done = fdl("autocomplete", "--dry-run", "--json", SHELL="/usr/bin/fish", HOME=home)
    assert json.loads(done.stdout)["data"]["shell"] == "fish"
    assert fdl("autocomplete", SHELL="/bin/tcsh", HOME=home).returncode == 2
    assert fdl("autocomplete", SHELL=None, HOME=home).returncode == 2
    assert fdl("autocomplete", "bash", HOME=None, USERPROFILE=None).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", [("",), ("port", "--"), ("run", "g")], ids=" ".join)
def test_complete_of_a_warm_project_imports_no_framework(project, warm_home, words):
    code = (
        "import sys; from fdl_cli.app import main; main(('__complete', 'zsh', *sys.argv[1:]));"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=project, env={**os.environ, **warm_home},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout
    modules = set(done.stderr.split())
    assert "fdl_cli.app" in modules
    assert not {"typer", "rich", "docker", "torch", "libcst", "httpx"} & modules
