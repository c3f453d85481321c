"""Exact sums: each unit is in them once, whatever happens to ranks between two collectives."""

import os
import signal

import pytest
import torch
from torch.distributed import TCPStore

from flodl.distributed.team import PeerLostError, Team, launch
from flodl.distributed.team.exact_runner import ExactRunner, ExactWork
from flodl.distributed.team.lone_summer import LoneSummer

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]

WINDOWS, UNITS = 4, 12


def plant(team, method, fault):
    """Let a rank die at the n-th call of a collective, and another take its end for a loss."""
    real = getattr(Team, method)
    calls = 0

    def faulty(self, *arguments):
        nonlocal calls
        calls += 1
        is_hit = calls == fault["call"]
        if is_hit and team.rank == fault["dies"] and fault["when"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(self, *arguments)
        if is_hit and team.rank == fault["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if is_hit and team.rank in fault.get("misses", ()):
            self._drop_group()
            if method == "gather":
                return real(self, *arguments)  # it regroups, and waits for the others
            raise PeerLostError("planted: the end did not arrive")
        return found

    setattr(Team, method, faulty)


def add_units(team, fault):
    """Add up one number for each unit, window by window."""
    if fault:
        plant(team, fault["at"], fault)
    runner = ExactRunner(team)
    found = []
    for window in range(WINDOWS):
        influence = torch.zeros(UNITS)

        def train(unit, influence=influence):
            influence[unit] += 1
            return 0.001 * (1 + team.rank)

        work = ExactWork(
            train=train,
            tensors=lambda held, influence=influence: [influence],
            note=lambda window=window: f"{team.rank} in {window}",
        )
        sums = runner.add_up(UNITS, work)
        found.append((sums.tensors[0].tolist(), dict(sums.notes), sums.counts))
    runner.part()
    return found, runner.members


def run(folder, fault, ranks=3):
    return launch(add_units, fault, devices=ranks, run_dir=folder, patience=20.0).join()


def check(results, alive):
    assert sorted(results) == alive
    for windows, members in results.values():
        assert list(members) == alive
        for influence, _, counts in windows:
            assert influence == [1.0] * UNITS
            assert sum(counts.values()) == UNITS
    # Notes and counts are the same on all ranks too.
    assert len({str(windows) for windows, _ in results.values()}) == 1


def test_exact_runner_without_faults_divides_by_speed(tmp_path):
    results = run(tmp_path, None)
    check(results, [0, 1, 2])
    windows, _ = results[0]
    assert windows[0][1] == {rank: f"{rank} in 0" for rank in range(3)}
    counts = windows[-1][2]
    assert counts[0] > counts[1] > counts[2] > 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", ["gather", "sum_up"])
@pytest.mark.parametrize("call", [1, 5])
def test_exact_runner_counts_each_unit_once_after_a_death(tmp_path, at, call, when):
    results = run(tmp_path, {"at": at, "call": call, "dies": 1, "when": when})
    check(results, [0, 2])


@pytest.mark.parametrize("misses", [[0], [2]])
@pytest.mark.parametrize(
    ("at", "call"), [("gather", 1), ("gather", 2), ("sum_up", 1), ("sum_up", 4)]
)
def test_exact_runner_hands_over_what_a_rank_missed(tmp_path, at, call, misses):
    fault = {"at": at, "call": call, "dies": 1, "when": "after", "misses": misses}
    check(run(tmp_path, fault), [0, 2])


def test_exact_runner_hands_over_the_last_window(tmp_path):
    # The sums of windows are calls 1, 4, 7 and 10: a note takes two more.
    fault = {"at": "sum_up", "call": 10, "dies": None, "when": "after", "misses": [0]}
    check(run(tmp_path, fault, ranks=2), [0, 1])


def test_lone_summer_does_all_units_itself():
    own = []
    work = ExactWork(
        train=lambda unit: own.append(unit) or 0.5,
        tensors=lambda held: [torch.tensor(own)],
        note=lambda: "told",
    )
    sums = LoneSummer().add_up(3, work)
    assert (sums.tensors[0].tolist(), sums.notes, sums.busy) == ([0, 1, 2], {0: "told"}, {0: 1.5})
    assert sums.counts == {0: 3}


@pytest.mark.parametrize(("device", "on_cpu"), [("cpu", True), ("cuda:0", False)])
def test_runner_of_a_gpu_does_not_expect_equal_bits(device, on_cpu):
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    team = Team(("127.0.0.1", store.port), 0, [device])
    assert ExactRunner(team).on_cpu is on_cpu
    team.close()
