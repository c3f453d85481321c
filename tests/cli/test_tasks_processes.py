"""A task is the process that was started: its exit code, its signals, its terminal."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.task_project import FDL, make_project, runner

pytestmark = pytest.mark.slow  # every test starts several processes


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


@pytest.fixture
def run(project):
    return runner(project)


def test_bytes_that_are_no_text_arrive(project):
    program = "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))"
    (project / "fdl.yml").write_text(
        f"commands: {{raw: {{run: [{sys.executable}, -ISc, {json.dumps(program)}]}}}}"
    )
    for words in (("raw", "--"), ("-q", "raw", "--")):
        done = subprocess.run(
            [*FDL, *words, b"\xff\xfe"], cwd=project, capture_output=True, check=True
        )
        assert done.stdout == b"\xff\xfe"


def test_exit_codes_and_signals_are_the_tasks_own(run):
    for prefix in ((), ("-q",), ("run", "--wait")):
        for environ in ({}, {"FDL_NO_RECORD": "1"}):
            assert run(*prefix, "code", environ=environ).returncode == 7
            assert run(*prefix, "kill", environ=environ).returncode == -signal.SIGTERM


@pytest.mark.parametrize("words", [("wait",), ("run", "--wait", "wait")])
def test_a_signal_reaches_the_task(project, words):
    with subprocess.Popen(
        [*FDL, *words], cwd=project, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "got it\n"
        assert process.wait(20) == 9


def test_a_closed_pipe_ends_the_task_as_any_program(project):
    for words in ("forever", "-q forever"):
        line = f"{shlex.join(FDL)} {words} | head -n 1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", line], cwd=project, capture_output=True, text=True, check=True
        )
        assert done.stdout == "y\n141\n"
        assert done.stderr == ""


def test_a_question_is_asked_on_a_terminal(project):
    for answer, printed in ((b"y\n", b"done"), (b"n\n", b"error[declined]")):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*FDL, "ask"], cwd=project, stdin=slave, stdout=slave, stderr=slave,
            env={**os.environ, "FDL_IN_CONTAINER": "0"},
        )  # fmt: skip
        os.close(slave)
        os.write(master, answer)
        written = b""
        while True:
            try:
                chunk = os.read(master, 4096)
            except OSError:
                break
            written += chunk
        process.wait(20)
        os.close(master)
        assert b"Delete everything? [y/N]" in written
        assert printed in written


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_of_any_kind_ends_task_and_fdl_alike(project, number):
    # `nohup`, and a shell without job control, start the tests with some signals ignored.
    before = signal.signal(number, signal.SIG_DFL)
    process = subprocess.Popen([*FDL, "forever"], cwd=project, stdout=subprocess.PIPE)
    signal.signal(number, before)
    with process:
        assert process.stdout.read(2) == b"y\n"
        process.send_signal(number)
        process.communicate(timeout=20)  # ends when no process is left that writes to it
        assert process.returncode == -number


COUNTER = """
import os, signal, sys, time
seen = 0
def count(*_):
    global seen
    seen += 1
signal.signal(signal.SIGINT, count)
print("ready", flush=True)
for _ in range(600):
    time.sleep(0.05)
    if seen:
        time.sleep(0.5)
        print("seen", seen, flush=True)
        sys.exit(4)
"""


@pytest.fixture
def counting(project):
    manifest = {"commands": {"count": {"run": [sys.executable, "-ISc", COUNTER]}}}
    (project / "fdl.yml").write_text(json.dumps(manifest))
    return project


def test_a_task_gets_a_signal_to_fdl_once(counting):
    with subprocess.Popen(
        [*FDL, "count"], cwd=counting, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "seen 1\n"
        assert process.wait(20) == 4


@pytest.mark.parametrize("piped", [False, True], ids=["terminal", "piped-input"])
def test_a_task_gets_ctrl_c_of_its_terminal_once(counting, piped):
    child, master = pty.fork()  # its own session, with the terminal as the controlling one
    if child == 0:
        os.chdir(counting)
        if piped:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(FDL[0], [*FDL, "count"])
    written = b""
    while b"seen" not in written or b"\n" not in written.partition(b"seen")[2]:
        written += os.read(master, 4096)
        if written.strip().endswith(b"ready"):
            os.write(master, b"\x03")
            written += b"!"
    assert b"seen 1" in written
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    os.close(master)


def test_a_task_dies_with_a_killed_fdl(project):
    process = subprocess.Popen([*FDL, "forever"], cwd=project, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.read(2) == b"y\n"
        process.kill()
        process.communicate(timeout=20)  # ends when the task is gone too
        assert process.returncode == -signal.SIGKILL


def test_a_parent_that_ignores_its_children_changes_nothing(project):
    line = f"trap '' CHLD; exec {shlex.join(FDL)} code"
    assert subprocess.run(["sh", "-c", line], cwd=project, check=False).returncode == 7


def test_a_stopped_task_goes_on(project):
    (project / "fdl.yml").write_text("commands: {s: {run: 'kill -STOP $$; echo on; exit 3'}}")
    with subprocess.Popen([*FDL, "s"], cwd=project, stdout=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for _ in range(200):
            names = children.read_text().split() if children.exists() else []
            states = [Path(f"/proc/{each}/stat").read_text().split()[2] for each in names]
            if states == ["T"]:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "on\n"
        assert process.wait(20) == 3


def test_no_python_stays_behind_without_a_record(project):
    (project / "fdl.yml").write_text("commands: {id: {run: 'echo $$; sleep 5'}}")
    for words in (["id"], ["-q", "id"]):
        with subprocess.Popen(
            [*FDL, *words], cwd=project, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "FDL_NO_RECORD": "1"},
        ) as process:  # fmt: skip
            assert process.stdout.readline().strip() == str(process.pid)
            name = Path(f"/proc/{process.pid}/comm").read_text().strip()
            process.kill()
        assert not name.startswith("python")


def test_ctrl_c_ends_a_task_at_once(project):
    process = subprocess.Popen([*FDL, "forever"], cwd=project, stdout=subprocess.PIPE)
    try:
        assert process.stdout.read(2) == b"y\n"  # from here on it is the task
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
    finally:
        process.kill()
        process.stdout.close()
