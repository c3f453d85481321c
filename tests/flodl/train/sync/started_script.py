"""A training for processes that a launcher starts: `started_script.py FOLDER [kill|raise|page] [EPOCHS]`."""

import os
import signal
import sys
import time
from pathlib import Path

from tests.flodl.train.sync.shared_jobs import builder, data, digest, loss_of

FOLDER = Path(sys.argv[1])
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""
EPOCHS = int(sys.argv[3]) if len(sys.argv) > 3 else 4
RANK = os.environ.get("RANK") or os.environ["SLURM_PROCID"]


def fail_once(training, metrics):
    if (
        FAULT not in ("kill", "raise")
        or training.rank != 1
        or metrics.epoch != 1
        or (FOLDER / "fault").exists()
    ):
        return
    (FOLDER / "fault").touch()
    if FAULT == "raise":
        raise ValueError("this epoch is bad")
    os.kill(os.getpid(), signal.SIGKILL)


class Page:
    """A monitor on whose page the first rank finds these requests, one each second."""

    def __init__(self, *requests):
        self.left, self.next = list(requests), 0.0

    def requests(self):
        if RANK != "0" or not self.left or time.monotonic() < self.next:
            return []
        self.next = time.monotonic() + 1.0
        return [self.left.pop(0)]

    def event(self, kind, line):
        with (FOLDER / "events").open("a") as file:
            file.write(f"{kind} of rank {RANK}: {line}\n")

    def __getattr__(self, name):
        return lambda *_: None


def tell(metrics):
    with (FOLDER / "epochs").open("a") as file:
        file.write(f"{metrics.epoch} of rank {RANK}\n")


if __name__ == "__main__":
    # Model, data and numbers are those of the other tests.
    made = builder("all", epochs=EPOCHS).on("epoch", fail_once).metrics_fn(tell)
    if "TEST_POLICY" in os.environ:
        made.policy(os.environ["TEST_POLICY"])
    # Where no parent tells of a death, the others wait for its silence.
    made.patience(float(os.environ.get("TEST_PATIENCE", "20")))
    if FAULT == "page":
        made.monitor(Page("evaluate", "save", "pause", "pause", "stop")).evaluate(
            data(), loss_of, batch_size=40
        )
    handle = made.run_dir(FOLDER / "run").resume("auto").run()
    state = handle.join()
    (FOLDER / f"digest-{RANK}").write_text(f"{digest(state)} {handle.world_size()}")
    (FOLDER / f"reason-{RANK}").write_text(state.stopped_by)
    sys.stdout.write(f"rank {RANK} is through\n")
