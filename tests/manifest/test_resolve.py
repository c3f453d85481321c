"""From words to the exact program: tables of cases over the pure functions."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.manifest.entry_arguments import entry_arguments
from fdl_cli.manifest.model import Flags, Stored, Trouble
from fdl_cli.manifest.reading.document import parse
from fdl_cli.manifest.reading.overlay import plain
from fdl_cli.manifest.resolve import (
    find_task,
    read_task_words,
    require_forwardable,
    require_runnable,
    resolve,
    surprise,
)
from fdl_cli.manifest.variables import fill_in
from fdl_cli.manifest.words import Words, divide, read_flags

MANIFEST = b"""
env: {A: project}
commands:
  line: {run: pytest -q}
  tail: {run: pytest -q, append: -- --slow}
  list: {run: [pytest, -q], append: [--slow, "a b"]}
  placed: {run: 'echo "$@" | sort'}
  many: {run: "one\\ntwo"}
  auto: {run: [pytest], forward: auto}
  never: {run: [pytest], forward: never}
  docker: {run: x, docker: dev}
  folder: {run: x, cwd: sub}
  ask: {run: x, confirm: sure}
  vars: {run: x, env: {A: "${B:-none}", C: "$$B"}}
  group: {entry: [python, t.py], commands: {sub: {run: inner}, quick: {options: {lr: 1}}}}
  train:
    entry: [python, t.py]
    env: {A: train}
    options: {lr: 0.1, tags: [x, y], fast: true, slow: false}
    commands:
      quick: {options: {lr: 5, tags: null}, env: {A: quick}}
"""


def stored():
    from fdl_cli.manifest.reading.overlay import without_nulls

    tree = plain(without_nulls(parse(MANIFEST, "fdl.yml").table))
    return Stored("/p", None, tree, "digest")


def invoke(*words, environ=None, exists=lambda _: False, flags=None):
    """Resolve as both ways of `fdl` do, without files."""
    project = stored()
    found = find_task(project.tree, project.root, words)
    own, given_words = read_task_words(found)
    require_runnable(found)
    require_forwardable(found, given_words)
    arguments = given_words.all
    if found.entry is not None:
        arguments = entry_arguments(found, None, given_words, environ or {})
    merged = (flags or Flags()).merged(own)
    return resolve(project, found, merged, arguments, environ or {}, exists)


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["line"], ["sh", "-c", "pytest -q", "fdl-line"]),
        (["line", "--", "-k", "a b"], ["sh", "-c", 'pytest -q "$@"', "fdl-line", "-k", "a b"]),
        (["line", "--"], ["sh", "-c", "pytest -q", "fdl-line"]),
        (["tail"], ["sh", "-c", "pytest -q -- --slow", "fdl-tail"]),
        (["tail", "--", "x"], ["sh", "-c", 'pytest -q "$@" -- --slow', "fdl-tail", "x"]),
        (["tail", "--no-append"], ["sh", "-c", "pytest -q", "fdl-tail"]),
        (["list"], ["pytest", "-q", "--slow", "a b"]),
        (["list", "--", "--", "-v"], ["pytest", "-q", "--", "-v", "--slow", "a b"]),
        (["list", "--no-append", "--", "z"], ["pytest", "-q", "z"]),
        (["placed", "--", "b"], ["sh", "-c", 'echo "$@" | sort', "fdl-placed", "b"]),
        (["auto", "-k", "x", "-v"], ["pytest", "-k", "x", "-v"]),
        (["auto", "-n", "--", "--", "-n"], ["pytest", "-n", "--", "-n"]),
        (["train"], ["python", "t.py", "--lr=0.1", "--tags=x", "--tags=y", "--fast"]),
        (["train", "--lr", "3"],
         ["python", "t.py", "--tags=x", "--tags=y", "--fast", "--lr", "3"]),
        (["train", "--lr=3"], ["python", "t.py", "--tags=x", "--tags=y", "--fast", "--lr=3"]),
        (["train", "quick"], ["python", "t.py", "--lr=5", "--tags=x", "--tags=y", "--fast"]),
        (["train", "quick", "--", "--lr"],
         ["python", "t.py", "--lr=5", "--tags=x", "--tags=y", "--fast", "--lr"]),
        (["group", "sub"], ["sh", "-c", "inner", "fdl-group-sub"]),
        (["group", "quick"], ["python", "t.py", "--lr=1"]),
    ],
)  # fmt: skip
def test_the_exact_program(words, argv):
    assert list(invoke(*words).argv) == argv


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["line", "-x"], "takes its arguments after `--`, not `-x`", "fdl line -- -x"),
        (["line", "a b", "--", "c"], "after `--`", "fdl line -- 'a b' c"),
        (["never", "--", "x"], "takes no arguments", "fdl never"),
        (["many", "--", "x"], "where in `run` of `many`", '"$@"'),
        (["line", "--docker"], "names no service", "docker: SERVICE"),
    ],
)
def test_words_that_do_not_fit(words, message, hint):
    with pytest.raises(Trouble) as caught:
        invoke(*words)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_environment_is_layered_and_says_who_set_it():
    changes = {c.name: c for c in invoke("train", "quick").changes}
    assert changes["A"].value == "quick"
    assert changes["A"].reason == "commands.train.commands.quick.env.A"
    assert changes["FDL_TASK"].value == "train quick"
    assert {c.name: c.value for c in invoke("line").changes}["A"] == "project"


def test_a_virtual_environment_comes_first():
    changes = {
        c.name: c.value
        for c in invoke(
            "line", environ={"PATH": "/bin"}, exists=lambda p: p == "/p/.venv/bin"
        ).changes
    }
    assert changes["PATH"] == "/p/.venv/bin:/bin"
    assert changes["VIRTUAL_ENV"] == "/p/.venv"


OWN = str(Path(sys.executable).parent)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}, "/v/bin:/bin"),
        ({"CONDA_PREFIX": "/c"}, "/c/bin:/bin"),
        ({"VIRTUAL_ENV": "/gone"}, f"/bin:{OWN}"),
        ({}, f"/bin:{OWN}"),
    ],
    ids=["active", "conda", "gone", "own"],
)
def test_a_task_without_an_environment_finds_python_as_every_command_does(environ, path):
    def paths(before):
        made = invoke(
            "line",
            environ={"PATH": before, **environ},
            exists=lambda place: place in ("/v/bin", "/c/bin", OWN),
        )
        return [change.value for change in made.changes if change.name == "PATH"]

    assert paths("/bin") == [path]
    assert paths(path) == []  # it is there already


@pytest.mark.parametrize(
    ("place", "inside", "service"),
    [
        (None, False, "dev"),
        ("native", False, None),
        (None, True, None),
        ("docker", True, "dev"),
    ],
)
def test_where_a_docker_task_runs(place, inside, service):
    found = invoke("docker", flags=Flags(place=place), exists=lambda p: inside)
    assert found.service == service


@pytest.mark.parametrize(
    ("environ", "files", "sign"),
    [
        ({}, {"/.dockerenv"}, "/.dockerenv"),
        ({}, {"/run/.containerenv"}, "/run/.containerenv"),
        ({"FDL_IN_CONTAINER": "1"}, set(), "FDL_IN_CONTAINER=1"),
        ({"FDL_IN_CONTAINER": "0"}, {"/.dockerenv"}, None),
        ({}, set(), None),
    ],
)
def test_docker_task_inside_a_container_names_the_sign(environ, files, sign):
    found = invoke("docker", environ=environ, exists=files.__contains__)
    assert (found.service is None) == (sign is not None)
    assert (found.passed_over and found.passed_over.sign) == sign
    assert sign is None or found.passed_over.service == "dev"


@pytest.mark.parametrize("place", ["native", "docker"])
def test_docker_task_with_a_place_that_was_asked_for_passes_nothing_over(place):
    found = invoke("docker", flags=Flags(place=place), exists=lambda _: True)
    assert found.passed_over is None


def test_task_without_a_service_passes_nothing_over():
    assert invoke("never", exists=lambda _: True).passed_over is None


def test_surprise_is_told_once_and_only_where_a_file_is_the_sign():
    found = invoke("docker", exists=lambda p: p == "/.dockerenv")
    assert surprise(found, {}) == (
        "`docker` runs here, not in the service `dev`: /.dockerenv says that this is a container "
        "already; `fdl run --docker docker` asks for the service"
    )
    assert surprise(found, {"FDL_CALLS": "outer"}) is None
    assert surprise(found, {"FDL_IN_CONTAINER": "1"}) is None
    assert surprise(invoke("docker"), {}) is None


def test_folders_questions_and_variables():
    assert invoke("folder").folder == "/p/sub"
    assert invoke("ask").confirm == "sure"
    assert invoke("ask", flags=Flags(yes=True)).confirm is None
    values = {c.name: c.value for c in invoke("vars").changes}
    assert values["A"] == "none"
    assert values["C"] == "$B"
    assert {c.name: c.value for c in invoke("vars", environ={"B": "b"}).changes}["A"] == "b"


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8), max_size=5
    )
)
def test_words_after_the_dashes_are_never_looked_at(words):
    assert divide(("x", "--", *words)) == Words(("x",), tuple(words))
    assert invoke("list", "--", *words).argv[2 : 2 + len(words)] == tuple(words)


@pytest.mark.parametrize(
    ("text", "environ", "filled"),
    [
        ("$A", {"A": "1"}, "1"),
        ("${A}x", {"A": "1"}, "1x"),
        ("${A}", {}, ""),
        ("${A:-d}", {"A": ""}, "d"),
        ("${A-d}", {"A": ""}, ""),
        ("${A:?no}", {"A": "1"}, "1"),
        ("$$A", {"A": "1"}, "$A"),
        ("5$ and $", {}, "5$ and $"),
    ],
)
def test_variables(text, environ, filled):
    assert fill_in(text, environ, "x") == filled


def test_a_variable_that_must_be_set():
    with pytest.raises(Trouble, match="run through fdl"):
        fill_in("${FDL_UID:?run through fdl}", {}, "user")


def test_flags_of_the_runner():
    flags, rest = read_flags(("-n", "--env", "ci", "--zzz", "--env=prod", "-y"))
    assert flags == Flags(environment="prod", dry_run=True, yes=True)
    assert rest == ("--zzz",)
    with pytest.raises(Trouble):
        read_flags(("--env",))


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_a_shell_line_gets_the_arguments_as_parameters(words):
    """The line that `-n` prints is the same program for a shell."""
    argv = invoke("line", "--", *words).argv
    assert shlex.split(shlex.join(argv)) == list(argv)
    assert argv[:4] == ("sh", "-c", 'pytest -q "$@"', "fdl-line")


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12),
        min_size=1,
        max_size=4,
    )
)
@pytest.mark.slow
def test_arguments_reach_a_program_byte_for_byte(words):
    program = (
        "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    )
    line = f"{shlex.quote(sys.executable)} -ISc {shlex.quote(program)}"
    project = Stored("/", None, {"commands": {"t": {"run": line}}}, "")
    found = find_task(project.tree, "/", ("t", "--", *words))
    _, given_words = read_task_words(found)
    made = resolve(project, found, Flags(), given_words.all, {}, lambda _: False)
    done = subprocess.run(made.argv, capture_output=True, check=True)
    assert done.stdout == b"\0".join(word.encode() for word in words)
