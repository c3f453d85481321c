"""The words that `fdl --help` lists no more, their words of today, and tasks with names of commands."""

import json

import pytest

from fdl_cli.commands.registry import COMMANDS, LISTED

MANIFEST = """
commands:
  greet: {description: Say hello, run: echo hello}
  port: {description: Call at a port, run: echo ahoy}
"""

# The words of then, and the words of today.
PAIRS = [
    (("tasks",), ("run", "--list")),
    (("tasks", "--all", "--json"), ("run", "--all", "--list", "--json")),
    (("tasks", "--json"), ("run", "--json")),
    (("config", "show", "--origin"), ("why", "--manifest", "--origin")),
    (("schema", "manifest"), ("run", "--options", "manifest")),
    (("schema", "list", "--json"), ("run", "--options", "list", "--json")),
    (("rerun", "--json"), ("runs", "--again", "--json")),
    (("torch", "list", "--json"), ("libtorch", "list", "--json")),
    (("completions", "zsh"), ("install", "--print-completion", "zsh")),
    (("autocomplete", "bash", "-n"), ("install", "--completion", "bash", "-n")),
]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "fdl.yml").write_text(MANIFEST)
    return tmp_path


def test_help_lists_at_most_sixteen_commands(fdl):
    shown = fdl("--help").stdout
    assert len(LISTED) <= 16
    assert {entry.name for entry in COMMANDS if f"\n  {entry.name} " in shown} == {
        entry.name for entry in LISTED
    }


@pytest.mark.parametrize(("then", "today"), PAIRS, ids=" ".join)
def test_former_word_gives_what_the_words_of_today_give(fdl, project, then, today):
    home = {"HOME": str(project / "home")}
    one, other = fdl(*then, cwd=project, **home), fdl(*today, cwd=project, **home)
    assert (one.returncode, one.stdout, one.stderr) == (
        other.returncode,
        other.stdout,
        other.stderr,
    )
    assert one.returncode in (0, 4)


def test_every_former_word_is_compared():
    assert {then[0] for then, _ in PAIRS} == {entry.name for entry in COMMANDS if entry.today}


@pytest.mark.parametrize("entry", [e for e in COMMANDS if e.today], ids=lambda e: e.name)
def test_help_of_a_former_word_names_the_words_of_today(fdl, entry):
    assert fdl(entry.name, "--help").stdout.endswith(f"The same as `fdl {entry.today}`.\n")
    command, _, option = entry.today.partition(" ")
    if option:
        assert f"  fdl {entry.today}" in fdl(command, "--help").stdout
        assert fdl(*entry.today.split(), "--help").stdout.startswith(f"Usage: fdl {entry.today} ")


def test_task_with_the_name_of_a_command_runs_by_run(fdl, project):
    assert fdl("run", "port", cwd=project).stdout == "ahoy\n"
    assert "ahoy" not in fdl("port", cwd=project).stdout
    assert "\n  run port  Call at a port\n" in fdl("--help", cwd=project).stdout
    assert "\n  greet     Say hello\n" in fdl("--help", cwd=project).stdout


def test_task_with_the_name_of_a_command_is_completed_after_run(fdl, project):
    def offered(*words):
        done = fdl("__complete", "zsh", *words, cwd=project)
        return [line.split("\t")[0] for line in done.stdout.splitlines() if line]

    assert offered("run", "p") == ["port"]
    assert offered("por") == ["port"]  # once: the command
    assert offered("runs", "--ag") == ["--again"]
    assert "--yes" in offered("runs", "--again", "--y")
    assert offered("install", "--completion", "fi") == ["fish"]
    assert offered("ta") == offered("rer") == []


def test_list_as_json_names_file_and_line(fdl, project):
    tasks = json.loads(fdl("run", "--list", "--json", cwd=project).stdout)["data"]["tasks"]
    assert [(task["name"], task["line"]) for task in tasks] == [("greet", 3), ("port", 4)]
