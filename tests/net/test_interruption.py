"""Killed at any moment, or run twice at once: the bytes are right and nothing is lost."""

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faulty_server import Faults, serve

from fdl_cli.net.artefact import Artefact, SilentProgress
from fdl_cli.net.download import fetch_all
from fdl_cli.net.store import Store, sha256_of

ROOT = Path(__file__).parents[2]
CONTENT = random.Random(11).randbytes(6_000_000)
SHA = hashlib.sha256(CONTENT).hexdigest()
FETCH = """
import sys
from pathlib import Path
from fdl_cli.net.artefact import Artefact, SilentProgress
from fdl_cli.net.download import fetch_all
from fdl_cli.net.store import Store
url, sha, size, cache = sys.argv[1:]
item = Artefact(name="big.bin", urls=(url,), sha256=sha, size=int(size))
(found,) = fetch_all([item], Store(Path(cache)), progress=SilentProgress())
print("cache" if found.from_cache else "network")
"""


def start(site, cache):
    words = [sys.executable, "-c", FETCH, f"{site.url}/big.bin", SHA, str(len(CONTENT))]
    return subprocess.Popen(
        [*words, str(cache)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_request(site, before, child):
    deadline = time.monotonic() + 10
    while len(site.log) == before and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def finished_files(cache):
    return list((cache / "files").glob("*/*")) if (cache / "files").is_dir() else []


@pytest.mark.slow
def test_killed_at_thirty_random_moments(tmp_path):
    rng = random.Random(5)
    sizes = []
    # Slow enough that most kills hit the transfer, fast enough that some hit the last steps.
    with serve({"/big.bin": CONTENT}, faults=Faults(times=10**6, rate=1.5e6)) as site:
        for number in range(30):
            child = start(site, tmp_path)
            # Starting takes longer on a busy machine: most kills count from the request.
            if number % 5:
                wait_for_request(site, len(site.log), child)
            time.sleep(rng.uniform(0.0, 0.3))
            child.send_signal(signal.SIGKILL)
            child.communicate()
            for path in finished_files(tmp_path):
                assert sha256_of(path) == SHA
            parts = list(tmp_path.glob("parts/*.part"))
            sizes.append(parts[0].stat().st_size if parts else None)
        site.faults.times = 0
        child = start(site, tmp_path)
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
    (path,) = finished_files(tmp_path)
    assert path.read_bytes() == CONTENT
    assert not list(tmp_path.glob("parts/*"))
    grown = [size for size in sizes if size is not None]
    assert grown == sorted(grown), "a later run must never have less than an earlier one"
    assert len(set(grown)) > 3, "the kills did not hit the transfer"


@pytest.mark.slow
def test_two_runs_at_once_fetch_the_file_once(tmp_path):
    with serve({"/big.bin": CONTENT}, faults=Faults(times=10**6, rate=12e6)) as site:
        children = [start(site, tmp_path) for _ in range(2)]
        answers = sorted(child.communicate(timeout=60)[0].strip() for child in children)
        assert answers == ["cache", "network"]
        assert len(site.log) == 1
    (path,) = finished_files(tmp_path)
    assert path.read_bytes() == CONTENT


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    with serve({"/big.bin": CONTENT}, faults=Faults(times=1, rate=1e6)) as site:
        child = start(site, tmp_path)
        while not any(part.stat().st_size for part in tmp_path.glob("parts/*.part")):
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        item = Artefact(
            name="big.bin", urls=(f"{site.url}/big.bin",), sha256=SHA, size=len(CONTENT)
        )
        started = time.monotonic()
        (found,) = fetch_all([item], Store(tmp_path), progress=SilentProgress())
        assert time.monotonic() - started < 5
        assert found.path.read_bytes() == CONTENT
        assert site.ranges()[1] is not None, "the second run must go on where the first stopped"


def test_ctrl_c_ends_at_once_and_keeps_what_arrived(tmp_path):
    with serve({"/big.bin": CONTENT}, faults=Faults(times=1, close_after=1)) as site:
        site.faults = Faults(times=1, silent=30)
        child = start(site, tmp_path)
        while not site.log:
            time.sleep(0.02)
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
        assert time.monotonic() - started < 3, "the server is silent for twice as long"
        assert child.returncode != 0
