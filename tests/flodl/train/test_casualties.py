"""Killed at 50 random moments and asked to end at 50: every run ends with the same weights, bit by bit."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.flodl.train.casualties import EVERY

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path):
    """A folder in memory where there is one: waiting for the disk would be most of the test."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def strike(how, count, folder):
    done = subprocess.run(
        [sys.executable, "-m", "tests.flodl.train.casualties", how, str(count), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == count, done.stderr
    return found


def test_killed_at_random_moments(folder):
    found = strike("kill", 50, folder)
    assert [each for each in found if not each["equal"] or each["damaged"]] == []
    # What is lost is at most what was trained since the last checkpoint was due, or while it was written.
    assert [each for each in found[::2] if each["steps"] - each["saved"] > EVERY] == []
    assert [each for each in found if each["steps"] - each["saved"] > 2 * EVERY] == []
    assert len({each["steps"] for each in found if each["code"] == -9}) > 10


def test_asked_to_end_at_random_moments(folder):
    found = strike("ask", 50, folder)
    assert [each for each in found if not each["equal"] or each["damaged"]] == []
    codes = {"SIGTERM": 143, "SIGINT": 130, "SIGUSR1": 138}
    obeyed = [each for each in found if each["code"] == codes[each["signal"]]]
    assert [each for each in obeyed if each["steps"] != each["saved"]] == []
    # Some come too early or too late to be in the training; most do not.
    assert len(obeyed) >= 40
