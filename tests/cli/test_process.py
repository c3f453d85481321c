"""`system.process.run`: what it returns, what it raises, and that nothing stays behind."""

import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.system.process import run

PYTHON = sys.executable


def test_output_code_and_time():
    done = run([PYTHON, "-c", "import sys; print('é'); print('no', file=sys.stderr)"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "é\n", "no\n")
    assert done.argv[0] == PYTHON
    assert 0 < done.seconds < 30


def test_arguments_arrive_unchanged():
    words = ["two words", "$HOME", "a;b", "*", "", "'\"", "line\nbreak", "--"]
    source = "import sys; sys.stdout.write('|'.join(sys.argv[1:]))"
    assert run([PYTHON, "-c", source, *words]).stdout == "|".join(words)


def test_bytes_that_are_no_utf8_do_not_stop_it():
    done = run([PYTHON, "-c", "import sys; sys.stdout.buffer.write(b'a\\xffb')"])
    assert done.stdout == "a�b"


def test_a_failure_says_the_command_the_code_and_the_last_lines():
    source = "import sys; [print('line', i, file=sys.stderr) for i in range(40)]; sys.exit(7)"
    with pytest.raises(OperationFailedError) as caught:
        run([PYTHON, "-c", source])
    error = caught.value
    assert error.error_id == "command-failed"
    assert "exit code 7" in error.message
    assert error.causes[-1] == "line 39"
    assert len(error.causes) == 12


def test_a_failure_can_be_looked_at():
    assert run([PYTHON, "-c", "raise SystemExit(3)"], check=False).returncode == 3


def test_a_signal_is_named():
    with pytest.raises(OperationFailedError, match="ended by SIGTERM"):
        run([PYTHON, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"])


def test_a_missing_program_and_a_missing_folder(tmp_path):
    with pytest.raises(EnvironmentLackingError) as caught:
        run(["no-such-program-here"])
    assert caught.value.error_id == "program-missing"
    with pytest.raises(EnvironmentLackingError) as caught:
        run([PYTHON, "--version"], cwd=tmp_path / "gone")
    assert caught.value.error_id == "folder-missing"


@pytest.mark.slow
def test_a_timeout_ends_the_children_too(tmp_path):
    mark = tmp_path / "child.pid"
    source = (
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(mark)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    started = time.monotonic()
    with pytest.raises(OperationFailedError) as caught:
        run([PYTHON, "-c", source], timeout=2)
    assert caught.value.error_id == "command-timeout"
    assert time.monotonic() - started < 20
    child = int(mark.read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        # A killed process stays a zombie until init collects it.
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child of a timed-out command is still running")


def test_the_command_is_echoed_quoted():
    told = []
    run([PYTHON, "-c", "pass # two words"], echo=told.append)
    assert told == [f"{shlex.quote(PYTHON)} -c 'pass # two words'"]


def test_the_environment_is_replaced_when_given():
    source = "import os; print(os.environ.get('HOME'), os.environ['ONLY'])"
    assert run([PYTHON, "-c", source], env={"ONLY": "this"}).stdout == "None this\n"
