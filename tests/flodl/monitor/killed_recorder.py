"""Records metrics and is killed, again and again, at random moments.

Every other recording goes as fast as it can, and the others make 2,000 records per second.

`python -m tests.flodl.monitor.killed_recorder COUNT FOLDER SEED` writes one JSON line per casualty. One
process imports everything; every recording is a fork of it, and tells in shared memory how far it has come.
"""

import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

from flodl.monitor.monitor import Monitor
from flodl.monitor.store.frames import Rows, decode
from flodl.monitor.store.segments import segments
from flodl.monitor.store.storage import open_reader
from flodl.monitor.worker import MonitorWorker

RECORDED, STORED, TIMES = 0, 8, 16  # offsets in the shared memory
STRIDE = 20  # records between two times
MOST = 2_000_000


def record(folder, shared, pause):
    """Record until the end; never flush."""
    drain = MonitorWorker.drain

    def noted(self):
        before = shared[RECORDED : RECORDED + 8]
        drain(self)
        shared[STORED : STORED + 8] = before

    MonitorWorker.drain = noted
    monitor = Monitor(0, run=folder, quiet=True, resources=False)
    for step in range(MOST):
        if step % STRIDE == 0:
            struct.pack_into("d", shared, TIMES + 8 * (step // STRIDE), time.monotonic())
        monitor.record(step, {"loss": float(step)})
        # `pack_into` clears the place first, and a kill may come between the two.
        shared[RECORDED : RECORDED + 8] = struct.pack("q", step + 1)
        if pause:
            time.sleep(pause)


def casualty(folder, seconds, pause):
    """Kill a recording some time after its first record was stored; return what is left of it."""
    shared = mmap.mmap(-1, TIMES + 8 * (MOST // STRIDE + 1))
    pid = os.fork()
    if pid == 0:
        record(folder, shared, pause)
    while not number(shared, STORED):
        time.sleep(0.001)
    time.sleep(seconds)
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    steps, values = [], []
    for path in segments(folder / "metrics"):
        for frame, _ in decode(path.read_bytes()):
            if isinstance(frame, Rows) and frame.group == "metrics":
                steps += frame.steps
                values += frame.columns[0]
    run = open_reader(folder).run
    found = len(steps)
    (lost_since,) = struct.unpack_from("d", shared, TIMES + 8 * (found // STRIDE))
    return {
        "paced": bool(pause),
        "recorded": number(shared, RECORDED),
        "stored": number(shared, STORED),  # at the last tick that ended
        "found": found,
        "whole": steps == values == [*map(float, range(found))],
        "shown": run.series["metrics"]["loss"].count,
        "status": run.status(),
        "damaged": run.damaged,
        "seconds_lost": max(killed_at - lost_since, 0.0) if lost_since else 0.0,
    }


def number(shared, offset):
    return struct.unpack_from("q", shared, offset)[0]


def main():
    count, folder, chance = int(sys.argv[1]), Path(sys.argv[2]), random.Random(int(sys.argv[3]))
    for index in range(count):
        pause = 0.0005 * (index % 2)
        found = casualty(folder / f"{index}", chance.uniform(0, 1), pause)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
