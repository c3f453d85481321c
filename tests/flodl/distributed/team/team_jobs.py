"""Jobs that the tests of teams run in workers, and the faults that they plan."""

import os
import signal
import subprocess
import time
import zlib
from dataclasses import replace
from pathlib import Path

import torch

from flodl.distributed import ControlRow, WindowPlanner
from flodl.distributed.team import ExactRunner, PeerLostError, Team, WindowRunner, WindowWork


class Influence:
    """A state to which each unit adds one at its own index."""

    def __init__(self, units):
        self.committed = torch.zeros(units)
        self.own = torch.zeros(units)

    def commit(self, averaged):
        self.committed += averaged.tensors[0]
        self.own.zero_()

    def work(self, train):
        return WindowWork(
            train=train,
            contribution=lambda rows, notes: [self.own],
            commit=self.commit,
            report=lambda row: replace(
                row, crc=zlib.crc32(repr(self.committed.tolist()).encode())
            ),
        )


def count_influence(team, units, seconds, folder, fault=None):
    """Train all units, and return the state with what the team went through."""
    influence = Influence(units)
    regroups = []
    time_regroups(regroups)
    done = 0

    def train(unit):
        nonlocal done
        done += 1
        if done == 2:
            (Path(folder) / f"trains-{team.rank}").touch()
        time.sleep(seconds)
        if fault is not None and done == fault.get("at_unit") and team.rank == fault["rank"]:
            (Path(folder) / "fault").write_text(str(time.time()))
            if fault["kind"] == "raise":
                raise ValueError(f"unit {unit} is bad")
            if fault["kind"] == "drift":
                influence.committed[0] += 1e-6
                return
            os.kill(os.getpid(), fault["kind"])
        influence.own[unit] += 1

    if fault is not None and "at_sum" in fault:
        plant_in_sum(team, fault)
    planner = WindowPlanner(units, team.members)
    runner = WindowRunner(ExactRunner(team), planner, influence.work(train))
    runner.run()
    return {
        "state": influence.committed,
        "ledger": runner.planner.ledger.ranges,
        "members": team.members,
        "regroups": regroups,
    }


def time_regroups(found):
    regroup = Team._regroup

    def timed(self):
        start = time.perf_counter()
        group = regroup(self)
        found.append((time.time(), time.perf_counter() - start, self.members))
        return group

    Team._regroup = timed


def plant_in_sum(team, fault):
    """Let a rank die around the n-th sum, and others take a sum that arrived for a lost one."""
    sum_up = Team.sum_up
    calls = 0

    def faulty(self, tensors):
        nonlocal calls
        calls += 1
        is_hit = calls == fault["at_sum"]
        if is_hit and team.rank == fault["rank"] and not fault["half"]:
            os.kill(os.getpid(), signal.SIGKILL)
        sums = sum_up(self, tensors)
        if is_hit and fault["half"]:
            if team.rank == fault["rank"]:
                os.kill(os.getpid(), signal.SIGKILL)
            if team.rank in fault["misses"]:
                self._drop_group()
                raise PeerLostError("planted: the sum did not arrive")
        return sums

    Team.sum_up = faulty


def sleep_long(team, folder):
    (Path(folder) / f"trains-{team.rank}").touch()
    time.sleep(120)


def die_with_a_child(team, folder):
    child = subprocess.Popen(["sleep", "120"])
    (Path(folder) / "child").write_text(str(child.pid))
    os.kill(os.getpid(), signal.SIGKILL)


def stop_at_the_end(team):
    """Let rank 1 be stopped when its result is saved and its process still there."""
    if team.rank == 1:
        Team.close = lambda self: os.kill(os.getpid(), signal.SIGSTOP)
    return team.gather(ControlRow(rank=team.rank, window=0, done=0, busy=0.0))
