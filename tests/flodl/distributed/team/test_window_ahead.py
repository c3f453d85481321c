"""Windows that follow each other without a wait: a rank that lost time trains less in the next one."""

from dataclasses import replace

import pytest
import torch

from flodl.distributed import ApplyPolicy, ElChe, WindowPlanner
from flodl.distributed.team import TeamError, WindowRunner, WindowWork, window_runner
from flodl.distributed.team.exact_runner import Averaged

pytestmark = pytest.mark.torch
PACE = 0.010


class Clock:
    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


class LoneRunner:
    """The windows of one rank, whose sums arrive at a given time after they began."""

    rank = 0

    def __init__(self, clock, takes=0.0):
        self.clock, self.takes = clock, takes
        self.rows, self.kinds, self.under_way = [], [], None

    def average(self, row, work):
        assert self.under_way is None
        self.rows.append(row)
        self.kinds.append("drained")
        return Averaged(rows=[self.measured(row)], tensors=work.tensors([row], {}), notes={})

    def start(self, row, work):
        assert self.under_way is None
        self.rows.append(row)
        self.kinds.append("under way")
        self.under_way = (row, work, self.clock.now + self.takes)

    def finish(self):
        (row, work, ends), self.under_way = self.under_way, None
        self.clock.now = max(self.clock.now, ends)
        return Averaged(rows=[self.measured(row)], tensors=work.tensors([row], {}), notes={})

    def measured(self, row):
        return replace(row, sync=0.002)


def trained(monkeypatch, *, total=200, slow=(), takes=0.0, may_overlap=lambda: True, cuts=()):
    """Train an epoch on a rank of 10 ms, and return its runner and the units in their order."""
    clock = Clock()
    monkeypatch.setattr(window_runner, "time", clock)
    runner, units, told = LoneRunner(clock, takes), [], []

    def train(unit):
        units.append(unit)
        clock.now += 0.085 if len(units) in slow else PACE

    work = WindowWork(
        train=train,
        contribution=lambda rows, notes: [torch.ones(1)],
        commit=lambda done: told.append(done.rows[0].done),
        may_overlap=may_overlap,
        is_cut=lambda: len(units) in cuts,
    )
    el_che = ElChe(max_anchor=10)
    planner = WindowPlanner(total, [0], policy=ApplyPolicy.ASYNC, el_che=el_che)
    window_loop = WindowRunner(runner, planner, work)
    while window_loop.window() is not None:
        pass
    assert units == list(range(total))
    assert sum(told) == total
    assert told == [row.done for row in runner.rows]
    return runner


def test_window_runner_trains_a_window_while_the_last_one_is_added_up(monkeypatch):
    runner = trained(monkeypatch)
    assert runner.kinds[0] == runner.kinds[-1] == "drained"
    assert runner.kinds.count("under way") > len(runner.kinds) // 2


def test_window_runner_without_leave_to_overlap_has_nothing_under_way(monkeypatch):
    assert set(trained(monkeypatch, may_overlap=lambda: False).kinds) == {"drained"}


def test_rank_that_lost_time_trains_less_in_the_next_windows_and_is_on_time_again(monkeypatch):
    usual = [row.done for row in trained(monkeypatch).rows]
    assert len(set(usual[2:8])) == 1
    # The third unit of a window takes 85 ms in place of 10, so that the window ends 35 ms late.
    rows = [row.done for row in trained(monkeypatch, slow=[sum(usual[:3]) + 3]).rows]
    assert rows[:3] == usual[:3]
    assert rows[3] == 3
    assert rows[4] == usual[4] - 3  # the next window was planned before; it has 35 ms less


def test_wait_for_the_others_does_not_make_a_rank_late(monkeypatch):
    runner = trained(monkeypatch, takes=0.200)
    counts = [row.done for row, kind in zip(runner.rows, runner.kinds, strict=True)
              if kind == "under way"]  # fmt: skip
    assert min(counts) >= max(counts) - 1


def test_window_that_is_cut_leaves_its_units_to_the_next_one(monkeypatch):
    trained(monkeypatch, cuts=[14, 15, 40])


def test_policy_sync_has_no_windows_of_averaging():
    planner = WindowPlanner(4, [0], policy=ApplyPolicy.SYNC)
    work = WindowWork(train=int, contribution=lambda rows, notes: [], commit=lambda done: None)
    with pytest.raises(TeamError, match="policy sync adds up exactly: make the planner"):
        WindowRunner(LoneRunner(Clock()), planner, work)
