"""Simulate trainings on many ranks by arithmetic, and print the share of the ideal that each policy reaches.

Usage: `python benchmarks/simulation.py [RANKS]`. Nothing sleeps, and no process is started: a unit is an
addition to the clock of its rank. The decisions are those of `flodl.distributed.WindowPlanner`.

The ideal is the sum of the speeds of all living ranks, times the seconds, without noise, stalls, averaging
or the first window. In an overlapped window (Async), the ranks are assumed to know the units of the next one
when they begin it; only its length lags by one window.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from flodl.distributed import ApplyPolicy, ControlRow, ElChe, WindowPlan, WindowPlanner
from flodl.distributed.unit_ledger import count_units

DRAWS = 1 << 16  # noise is drawn once, and read from a random place


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Ranks that do not exist: times in seconds, from the begin of the training."""

    paces: tuple[float, ...]
    noise: float = 0.0
    stall_rate: float = 0.0  # the part of the units that stall
    stall: float = 5.0  # the length of a stall, in units
    sync: float = 0.002
    control: float = 0.0003
    regroup: float = 0.01
    changes: Mapping[int, tuple[float, float]] = field(
        default_factory=dict
    )  # rank: (when, factor)
    deaths: Mapping[int, float] = field(default_factory=dict)

    def ideal_seconds(self, units: int) -> float:
        """Return how long the ranks would take if none ever waited."""
        times = sorted({0.0, *(when for when, _ in self.changes.values()), *self.deaths.values()})
        for begin, end in zip(times, [*times[1:], float("inf")], strict=True):
            rate = sum(
                1.0 / self.pace(rank, begin)
                for rank in range(len(self.paces))
                if self.deaths.get(rank, float("inf")) > begin
            )
            if units <= rate * (end - begin):
                return begin + units / rate
            units -= rate * (end - begin)
        raise ValueError("all ranks are dead before the units are trained")

    def pace(self, rank: int, now: float) -> float:
        when, factor = self.changes.get(rank, (float("inf"), 1.0))
        return self.paces[rank] * factor if now >= when else self.paces[rank]


@dataclass(frozen=True)
class Outcome:
    """What a simulated training reached."""

    units: int
    seconds: float
    share: float
    windows: int
    lost: int


class Simulation:
    """One training of one epoch; `run` gives what it reached."""

    def __init__(self, cluster: Cluster, planner: WindowPlanner, seed: int = 0) -> None:
        self.cluster = cluster
        self.planner = planner
        self.random = random.Random(seed)
        self.noise = [max(0.1, self.random.gauss(1.0, cluster.noise)) for _ in range(DRAWS)]
        self.free = dict.fromkeys(range(len(cluster.paces)), 0.0)  # when each rank has time
        self.lost = 0

    def run(self) -> Outcome:
        planner, cluster = self.planner, self.cluster
        units, begin, windows, sync = planner.ledger.left, 0.0, 0, None
        while (plan := planner.plan) is not None:
            overlaps = planner.policy is ApplyPolicy.ASYNC and plan.seconds is not None
            if not overlaps:
                begin = max(begin, *self.free.values())
            rows, end = self.window(plan, begin, sync, overlaps=overlaps)
            sync = cluster.sync
            windows += 1
            if overlaps:
                # The next window begins on the grid, but an averaging must end before the next one begins.
                begin += max(plan.seconds or 0.0, cluster.control + cluster.sync)
            else:
                begin = end + cluster.control + cluster.sync
                self.free = dict.fromkeys(self.free, begin)
            if len(rows) < len(plan.members):
                begin += cluster.regroup
            planner.decide(rows)
        seconds = max(begin, *self.free.values())
        return Outcome(units, seconds, cluster.ideal_seconds(units) / seconds, windows, self.lost)

    def window(
        self, plan: WindowPlan, begin: float, sync: float | None, *, overlaps: bool
    ) -> tuple[list[ControlRow], float]:
        """Return the rows of the ranks that survive a window, and when the last of them ends."""
        rows, end = [], begin
        for position, rank in enumerate(plan.members):
            start = self.free[rank] if overlaps else begin
            done, busy = self.train(plan, position, begin, start)
            if start + busy >= self.cluster.deaths.get(rank, float("inf")):
                self.lost += done
                del self.free[rank]
                continue
            self.free[rank] = start + busy
            end = max(end, start + busy)
            rows.append(
                ControlRow(
                    rank=rank,
                    window=plan.window,
                    round=plan.round,
                    done=done,
                    busy=busy,
                    sync=sync,
                )
            )
        return rows, end

    def train(
        self, plan: WindowPlan, position: int, begin: float, start: float
    ) -> tuple[int, float]:
        """Return the units that a rank trains in a window, and the seconds that they take."""
        available = count_units(plan.units[position])
        costs = self.costs(plan.members[position], start)
        done, busy, late = 0, 0.0, start - begin
        while done < available and plan.has_time(position, done, late + busy):
            busy += costs(busy)
            done += 1
        return done, busy

    def costs(self, rank: int, start: float) -> Callable[[float], float]:
        """Return the cost of the next unit, as a function of the seconds since `start`."""
        cluster, draw, noise = self.cluster, self.random.random, self.noise
        place = self.random.randrange(DRAWS)
        base, changed = cluster.paces[rank], rank in cluster.changes
        stall_rate, stall = cluster.stall_rate, cluster.stall

        def cost(passed: float) -> float:
            nonlocal place
            place = (place + 1) % DRAWS
            pace = cluster.pace(rank, start + passed) if changed else base
            stalls = stall_rate and draw() < stall_rate
            return pace * (noise[place] + stall if stalls else noise[place])

        return cost


def simulate(
    cluster: Cluster,
    units: int,
    policy: ApplyPolicy = ApplyPolicy.CADENCE,
    *,
    accumulate: int = 1,
    el_che: ElChe | None = None,
    seed: int = 0,
) -> Outcome:
    """Return what a training of so many units reaches."""
    planner = WindowPlanner(
        units, range(len(cluster.paces)), policy=policy, accumulate=accumulate, el_che=el_che
    )
    return Simulation(cluster, planner, seed).run()


def many(ranks: int, seed: int = 0, **settings: object) -> Cluster:
    """Return ranks between 10 ms and 30 ms for a unit; averaging takes 20 ms."""
    paces = tuple(random.Random(seed).uniform(0.010, 0.030) for _ in range(ranks))
    return Cluster(paces=paces, sync=0.020, control=0.003, **settings)  # type: ignore[arg-type]


def scenarios(ranks: int) -> Iterator[tuple[str, Cluster, int]]:
    """Yield a name, a cluster and the number of units."""
    yield "2 ranks, 10:25 ms", Cluster(paces=(0.010, 0.025)), 4000
    yield (
        "2 ranks, one slows 10 times at 2 s",
        Cluster(paces=(0.010, 0.010), noise=0.02, changes={1: (2.0, 10.0)}),
        2000,
    )
    yield (
        "4 ranks, one dies at 2 s",
        Cluster(paces=(0.010, 0.010, 0.020, 0.025), noise=0.05, deaths={1: 2.0}),
        4000,
    )
    yield f"{ranks:,} ranks, 5 % noise", many(ranks, noise=0.05), ranks * 2000
    yield (
        f"{ranks:,} ranks, noise, a stall of 5 units in 500",
        many(ranks, noise=0.05, stall_rate=1 / 500),
        ranks * 2000,
    )


def main() -> int:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    print(f"{'share of the ideal':50} {'cadence':>8} {'async':>8}  windows  lost units")
    for name, cluster, units in scenarios(ranks):
        cadence = simulate(cluster, units, ApplyPolicy.CADENCE)
        overlapped = simulate(cluster, units, ApplyPolicy.ASYNC)
        shares = f"{cadence.share:8.1%} {overlapped.share:8.1%}"
        print(f"{name:50} {shares}  {cadence.windows:7}  {cadence.lost:10}")
    for total in (2, 4, 7, 14, 28):
        cluster = Cluster(paces=(0.010, 0.025), sync=0.0023, control=0.0)
        found = simulate(cluster, 2800, ApplyPolicy.SYNC, accumulate=total)
        print(f"{f'sync, 10:25 ms, {total} units an update':50} {found.share:8.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
