"""Manifests and words that somebody made to do harm, given to `fdl` as a process."""

import json
import resource
import sys
import time

import pytest

from tests.cli.task_project import ECHO, runner
from tests.manifest.test_document import bomb

pytestmark = pytest.mark.slow

COMMANDS = [
    ("--help",), ("tasks",), ("run", "x"), ("x",), ("why", "x"), ("__complete", "zsh", ""),
    ("__complete", "bash", "run", "x"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["lists", "mappings", "merges", "keys"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_beside_an_alias_bomb_ends_soon_with_little_memory(words, kind, tmp_path):
    (tmp_path / "fdl.yml").write_bytes(bomb(kind))
    limit = 1 << 30
    started = time.monotonic()
    done = runner(tmp_path)(
        *words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )
    assert time.monotonic() - started < 10
    assert "Traceback" not in done.stderr
    if words[0] == "__complete":
        assert done.returncode == 0
    elif words == ("--help",):
        assert (done.returncode, "Usage" in done.stdout) == (0, True)
    else:
        assert done.returncode == 3
        assert "means more than 20,000 values" in done.stderr


INJECTIONS = (
    "$(touch {mark})", "`touch {mark}`", "; touch {mark}", "&& touch {mark}", "| touch {mark}",
    "\ntouch {mark}\n", '"; touch {mark}; "', "'; touch {mark}; '",
)  # fmt: skip
TASKS = f"""
commands:
  program: {{run: [{sys.executable}, -ISc, {json.dumps(ECHO)}], forward: auto}}
  line: {{run: 'printf "%s" "$@"', forward: auto}}
  script: {{entry: [{sys.executable}, train.py], options: {{name: x}}}}
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.py").write_text(
        "import argparse, json\np = argparse.ArgumentParser()\np.add_argument('--name')\n"
        "print(json.dumps([[p.parse_args().name]]))\n"
    )
    (tmp_path / "fdl.yml").write_text(TASKS)
    return runner(tmp_path)


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize("task", ["program", "line", "script"])
def test_task_argument_with_shell_code_runs_none_of_it(task, injection, run, tmp_path):
    mark = tmp_path / "injected"
    text = injection.format(mark=mark)
    done = run("script", f"--name={text}") if task == "script" else run(task, "--", text)
    assert done.returncode == 0, done.stderr
    assert (done.stdout if task == "line" else json.loads(done.stdout)[0][0]) == text
    assert not mark.exists()


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize("place", ["task", "overlay", "environment"])
def test_name_with_shell_code_runs_none_of_it(place, injection, run, tmp_path):
    mark = tmp_path / "injected"
    text = injection.format(mark=mark)
    if place == "task":
        done = run("run", text)
    elif place == "overlay":
        done = run("--env", text, "line")
    else:
        done = run("line", environ={"FDL_ENV": text})
    assert done.returncode in {2, 4}, done
    assert "Traceback" not in done.stderr
    assert not mark.exists()
