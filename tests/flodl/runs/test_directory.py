"""A run on disk: created once, found again, held by one process, and read by any."""

import json
import os
import subprocess
import sys

import pytest

from flodl import RunDirectory, RunError
from flodl.runs.environment import environment, find_changes
from flodl.runs.repository import code_state

pytestmark = pytest.mark.torch


def test_a_run_has_its_files(tmp_path):
    run = RunDirectory.create(tmp_path, "first")
    assert (tmp_path / "first" / "environment.json").is_file()
    assert run.metrics.is_dir()
    assert run.environment["packages"]["torch"]
    run.write_config({"epochs": 3, "nested": {"a": [1, 2]}})
    again = RunDirectory.open(tmp_path / "first")
    assert again.config == {"epochs": 3, "nested": {"a": [1, 2]}}
    assert again.name == "first"


def test_a_name_is_made_when_none_is_given(tmp_path):
    first, second = RunDirectory.create(tmp_path), RunDirectory.create(tmp_path)
    assert first.path != second.path


def test_a_run_is_not_overwritten(tmp_path):
    RunDirectory.create(tmp_path, "a")
    with pytest.raises(RunError, match="there is a run here already"):
        RunDirectory.create(tmp_path, "a")
    assert RunDirectory.at(tmp_path / "a").path == tmp_path / "a"


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(RunError, match="no run here"):
        RunDirectory.open(tmp_path / "nothing")
    assert RunDirectory.latest(tmp_path / "nothing") is None
    assert RunDirectory.latest(tmp_path) is None


def test_the_latest_is_the_one_made_last(tmp_path):
    RunDirectory.create(tmp_path, "z")
    newest = RunDirectory.create(tmp_path, "a")
    created = json.loads((newest.path / "environment.json").read_text())
    created["created"] = "2999-01-01"
    (newest.path / "environment.json").write_text(json.dumps(created))
    (tmp_path / "no run").mkdir()
    assert RunDirectory.latest(tmp_path).name == "a"


def test_a_broken_file_is_named(tmp_path):
    run = RunDirectory.create(tmp_path, "a")
    (run.path / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json: not readable"):
        _ = run.config


def test_two_processes_do_not_train_in_one_run(tmp_path):
    run = RunDirectory.create(tmp_path, "a")
    with (
        run.held(),
        pytest.raises(RunError, match="another process"),
        RunDirectory.open(run.path).held(),
    ):
        pass
    with run.held():
        pass


def test_changes_that_matter_are_found():
    now = environment()
    assert find_changes(now, now) == ()
    before = {
        **now,
        "python": "3.1",
        "host": "elsewhere",
        "git": {"commit": "a" * 40, "digest": ""},
    }
    now = {**now, "git": {"commit": "b" * 40, "digest": ""}}
    assert find_changes(before, now) == (
        f"python: was 3.1, is {now['python']}",
        "code: was commit aaaaaaaaaa, is bbbbbbbbbb",
    )
    dirty = {**now, "git": {"commit": "b" * 40, "digest": "1"}}
    assert find_changes(now, dirty) == (
        "code: the uncommitted changes on bbbbbbbbbb are other ones",
    )


def test_the_code_is_described_by_git(tmp_path):
    assert code_state(tmp_path / "nowhere") is None

    def git(*words):
        identity = {
            **os.environ,
            **{
                f"GIT_{role}_{key}": "x@y"
                for role in ("AUTHOR", "COMMITTER")
                for key in ("NAME", "EMAIL")
            },
        }
        subprocess.run(
            ["git", "-C", tmp_path, *words], check=True, capture_output=True, env=identity
        )

    git("init", "-q", "-b", "main")
    (tmp_path / "train.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    clean = code_state(tmp_path)
    assert (clean.branch, clean.dirty, clean.digest) == ("main", False, "")
    (tmp_path / "train.py").write_text("a = 2\n")
    first = code_state(tmp_path)
    assert first.dirty
    assert first.commit == clean.commit
    (tmp_path / "train.py").write_text("a = 3\n")
    assert code_state(tmp_path).digest != first.digest


@pytest.mark.slow
def test_a_killed_holder_lets_go(tmp_path):
    run = RunDirectory.create(tmp_path, "a")
    code = (
        "import sys, time\nfrom flodl import RunDirectory\n"
        "with RunDirectory.open(sys.argv[1]).held():\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, run.path], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(RunError), run.held():
        pass
    child.kill()
    child.communicate()
    with run.held():
        pass
