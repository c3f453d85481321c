"""A task is the process that was started: its exit code, its signals, its terminal."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
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
        assert run(*prefix, "code").returncode == 7
        killed = run(*prefix, "kill").returncode
        assert killed == (143 if "--wait" in prefix else -signal.SIGTERM)


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


def test_no_python_stays_behind(project):
    (project / "fdl.yml").write_text("commands: {id: {run: 'echo $$; sleep 5'}}")
    for words in (["id"], ["-q", "id"]):
        with subprocess.Popen(
            [*FDL, *words], cwd=project, stdout=subprocess.PIPE, text=True
        ) as process:
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
