"""Whatever happens to ranks, each unit is in the state of all survivors exactly once."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from flodl.distributed.team import RankState, WorkerError, launch
from tests.flodl.distributed.team import team_jobs

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]

UNITS = 240
LAUNCHER = """
import sys, threading
from flodl.distributed.team import launch
from tests.flodl.distributed.team import team_jobs

def main():
    handle = launch(
        team_jobs.sleep_long, sys.argv[1], devices=2, run_dir=sys.argv[1], patience=2
    )
    print(*handle.pids.values(), handle._scratch, flush=True)
    handle.join()

if __name__ == "__main__" and sys.argv[2] == "main":
    main()
elif __name__ == "__main__":
    threading.Thread(target=main).start()
"""


def is_alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def wait_until(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def start(folder, *, ranks=3, units=UNITS, seconds=0.004, fault=None, patience=20.0, min_ranks=1):
    return launch(
        team_jobs.count_influence,
        units,
        seconds,
        str(folder),
        fault=fault,
        devices=ranks,
        run_dir=folder,
        patience=patience,
        min_ranks=min_ranks,
    )


def require_exactly_once(results, survivors, units=UNITS):
    assert sorted(results) == sorted(survivors)
    for found in results.values():
        assert found["ledger"] == ((0, units),)
        assert torch.equal(found["state"], torch.ones(units))
        assert set(survivors) <= set(found["members"])


def require_no_process(handle):
    assert [pid for pid in handle.pids.values() if is_alive(pid)] == []


def has_begun(folder, ranks=3):
    return lambda: all((folder / f"trains-{rank}").exists() for rank in range(ranks))


def test_team_without_fault_trains_each_unit_once(tmp_path):
    with start(tmp_path, ranks=2) as handle:
        wait_until(has_begun(tmp_path, 2))
        assert not (
            handle._scratch / "parcel"
        ).exists()  # a killed parent would leave it in memory
        results = handle.join(60)
        assert not handle._scratch.exists()
        require_exactly_once(results, (0, 1))
        assert set(handle.poll().values()) == {RankState.DONE}
    require_no_process(handle)
    assert [len(found["regroups"]) for found in results.values()] == [1, 1]  # the first group


@pytest.mark.parametrize("seed", range(6))
def test_team_with_killed_ranks_trains_each_unit_once(tmp_path, seed):
    draw = random.Random(seed)
    victims = draw.sample(range(3), draw.choice([1, 1, 2]))
    # Long enough that every victim dies before the end, on a busy machine too.
    units = 1200
    with start(tmp_path, units=units) as handle:
        wait_until(has_begun(tmp_path))
        for victim in victims:
            time.sleep(draw.random() * 0.15)
            os.kill(handle.pids[victim], signal.SIGKILL)
        results = handle.join(60)
        survivors = [rank for rank in range(3) if rank not in victims]
        require_exactly_once(results, survivors, units)
        assert {handle.poll()[victim] for victim in victims} == {RankState.DIED}
    require_no_process(handle)


# Even where a loaded machine makes windows long: the first has one unit for each rank, so two sums exist.
def test_death_between_report_and_sum_repeats_only_the_sum(tmp_path):
    fault = {"at_sum": 2, "rank": 1, "half": False}
    with start(tmp_path, fault=fault) as handle:
        require_exactly_once(handle.join(60), (0, 2))


def test_half_commit_is_adopted_by_the_rank_behind(tmp_path):
    fault = {"at_sum": 2, "rank": 0, "half": True, "misses": [2]}
    with start(tmp_path, fault=fault) as handle:
        require_exactly_once(handle.join(60), (1, 2))


def test_half_commit_of_the_last_window_is_adopted(tmp_path):
    # Windows of one unit for each rank, by count, come first: three units are one window.
    fault = {"at_sum": 1, "rank": 1, "half": True, "misses": [0]}
    with start(tmp_path, units=3, fault=fault) as handle:
        require_exactly_once(handle.join(60), (0, 2), units=3)


def test_stopped_rank_is_passed_by_and_ends_when_it_wakes(tmp_path):
    patience = 1.5
    fault = {"kind": signal.SIGSTOP, "at_unit": 3, "rank": 1}
    with start(tmp_path, units=3200, fault=fault, patience=patience) as handle:
        wait_until((tmp_path / "fault").exists)
        # The others regroup in the meantime, and train for seconds more.
        time.sleep(patience + 3.0)
        os.kill(handle.pids[1], signal.SIGCONT)
        wait_until(lambda: handle.poll()[1] is not RankState.RUNNING)
        assert handle.poll()[1] is RankState.LEFT_OUT
        assert "went on without it" in handle.logs[1].read_text()
        results = handle.join(60)
    require_exactly_once(results, (0, 2), units=3200)


def test_rank_that_stays_stopped_does_not_hold_the_end(tmp_path):
    fault = {"kind": signal.SIGSTOP, "at_unit": 3, "rank": 2}
    with start(tmp_path, fault=fault, patience=2.0) as handle:
        require_exactly_once(handle.join(60), (0, 1))
    require_no_process(handle)


def test_member_that_is_stopped_after_the_end_does_not_hold_it(tmp_path):
    with launch(team_jobs.stop_at_the_end, devices=2, run_dir=tmp_path, patience=3.0) as handle:
        results = handle.join(60)
    assert [each.rank for each in results[0]] == [0, 1]
    require_no_process(handle)


def test_error_of_a_rank_reaches_the_parent_and_ends_all(tmp_path):
    fault = {"kind": "raise", "at_unit": 3, "rank": 1}
    with start(tmp_path, ranks=2, fault=fault) as handle:
        with pytest.raises(
            WorkerError, match=r"rank 1 failed with ValueError: unit \d+ is bad"
        ) as caught:
            handle.join(60)
        assert (caught.value.rank, caught.value.log) == (1, tmp_path / "rank-1.log")
        assert "ValueError" in caught.value.log.read_text()
        require_no_process(handle)


def test_error_of_ranks_that_do_not_agree_names_the_rank(tmp_path):
    fault = {"kind": "drift", "at_unit": 3, "rank": 1}
    with (
        start(tmp_path, fault=fault) as handle,
        pytest.raises(WorkerError, match="DesyncError: rank 1 and"),
    ):
        handle.join(60)
    require_no_process(handle)


def test_team_with_fewer_ranks_than_allowed_ends(tmp_path):
    fault = {"kind": signal.SIGKILL, "at_unit": 3, "rank": 1}
    told = "1 rank is left, and min_ranks is 2"
    handle = start(tmp_path, ranks=2, fault=fault, min_ranks=2)
    with handle, pytest.raises(WorkerError, match=told):
        handle.join(60)


def test_death_of_the_only_rank_is_an_error_and_ends_what_it_started(tmp_path):
    handle = launch(team_jobs.die_with_a_child, str(tmp_path), devices=1, run_dir=tmp_path)
    with pytest.raises(WorkerError, match=r"no rank is left: rank 0 died \(signal 9\)"):
        handle.join(60)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_alive(child), 5)
    require_no_process(handle)


@pytest.mark.parametrize(
    ("number", "thread"),
    [
        (signal.SIGINT, "main"),
        (signal.SIGTERM, "main"),
        (signal.SIGKILL, "main"),
        # Linux would take the end of this thread for the end of the parent, so only the store tells.
        (signal.SIGKILL, "other"),
    ],
)
def test_end_of_the_parent_leaves_no_process(tmp_path, number, thread):
    parent = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path), thread],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        *pids, scratch = parent.stdout.readline().decode().split()
        pids = [int(pid) for pid in pids]
        assert len(pids) == 2
        wait_until(has_begun(tmp_path, 2))
        assert all(map(is_alive, pids))
    finally:
        parent.send_signal(number)
        parent.wait(20)
    wait_until(lambda: not any(map(is_alive, pids)), 10)
    parent.stdout.close()
    shutil.rmtree(scratch, ignore_errors=True)  # Ctrl-C alone gives the parent time to do it
