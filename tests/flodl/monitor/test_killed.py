"""Killed at random moments, without a flush: at most the records since the last tick are lost."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from flodl.monitor import worker
from flodl.monitor.monitor import Monitor
from flodl.monitor.worker import TICK_SECONDS

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform == "win32", reason="recordings are forks"),
]


class Waits:
    """Stands for the event that wakes a worker, and ends it after some waits, none of which takes time."""

    def __init__(self, worker, count):
        self.seconds = [0.0]
        self._worker, self._count = worker, count

    def wait(self, seconds):
        self._worker._recorder.rows.extend((0.0, 0.0, {"loss": 1.0}) for _ in range(50))
        self.seconds[-1] += seconds

    def clear(self):
        self.seconds.append(0.0)
        self._worker._stopping = len(self.seconds) > self._count

    def rest(self, seconds):
        self.seconds[-1] += seconds


def test_worker_of_a_busy_run_stores_once_per_tick(monkeypatch):
    monitor = Monitor(0, quiet=True, resources=False)
    monitor._worker.close()
    busy = monitor._worker
    busy._stopping, busy._wake = False, Waits(busy, 20)
    monkeypatch.setattr(worker.time, "sleep", busy._wake.rest)
    busy._loop()
    assert busy._recorder.busy
    *waits, _ = busy._wake.seconds
    assert len(waits) == 20
    assert max(waits) <= TICK_SECONDS + 1e-9


def killed(count, folder, seed):
    """Kill recordings; return what each left, after the checks that hold for all."""
    words = [sys.executable, "-m", "tests.flodl.monitor.killed_recorder"]
    done = subprocess.run(
        [*words, str(count), str(folder), str(seed)],
        capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == count, done.stderr
    assert [each for each in found if each["found"] < each["stored"]] == []
    assert [each for each in found if each["found"] > each["recorded"] + 1] == []
    assert [each for each in found if not each["whole"] or each["shown"] != each["found"]] == []
    assert {each["status"] for each in found} == {"lost"}
    # Most are killed between two ticks: the bound above is a bound, not the rule that nothing is lost.
    assert sum(each["recorded"] > each["found"] for each in found) > count / 2
    return found


@pytest.mark.slow
def test_recording_killed_at_random_moments_keeps_all_before_the_last_tick(tmp_path):
    killed(6, tmp_path, 1)


@pytest.mark.campaign("kills", covers=("flodl/monitor", "tests/flodl/monitor/killed_recorder.py"))
def test_recording_campaign_of_fifty_kills(tmp_path, campaign):
    found = killed(50, tmp_path, 3)
    assert sum(each["found"] for each in found) > 1_000_000
    paced = [each["seconds_lost"] for each in found if each["paced"]]
    assert max(paced) < TICK_SECONDS + 0.1
    campaign.write(
        seed=3,
        cases=50,
        outcomes=Counter(
            "kept all" if each["recorded"] <= each["found"] else "kept all before the last tick"
            for each in found
        ),
        worst={
            "fewest_records_kept": min(each["found"] for each in found),
            "records_kept_by_all": sum(each["found"] for each in found),
            "seconds_lost_at_2000_per_second": max(paced),
            "damaged_frames": max(each["damaged"] for each in found),
        },
    )
