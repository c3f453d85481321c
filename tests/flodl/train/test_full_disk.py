"""A small file system that really is full for three epochs: the training goes on, and nothing is torn."""

import json
import os
import shutil
import subprocess
import sys

import pytest

MOUNT = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'


def mounted(place, *words):
    """Run a program that finds a file system of 1 MB at a place; no other process sees it."""
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(place), *words],
        capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.torch
@pytest.mark.slow
def test_trainer_on_a_disk_that_is_full_for_a_while_goes_on_and_stores_the_rest(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if shutil.which("unshare") is None or mounted(place, "true").returncode != 0:
        pytest.skip("this machine lets users mount nothing")
    program = [sys.executable, "-m", "tests.flodl.train.full_disk"]
    done = mounted(place, *program, str(place), str(tmp_path / "other"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["filled"] == ["ENOSPC"]
    assert found["stopped_by"] == "finished"
    assert found["equal"]
    reasons = [line for line in found["notices"] if "No space left on device" in line]
    assert reasons
    assert all("an earlier file is unchanged" in line for line in reasons)
    assert sum("nothing can be stored now" in line for line in found["lines"]) == 1
    # What could not be written waited in memory, and was written when there was room.
    assert (found["epochs"], found["events"], found["damaged"]) == (list(range(8)), 8, 0)
    assert found["checkpoints"] == {"30": [], "32": []}
    assert found["left over"] == []
