"""A training for processes that a launcher starts: `started_script.py FOLDER [kill|raise] [EPOCHS]`."""

import os
import signal
import sys
from pathlib import Path

from tests.flodl.train.sync.shared_jobs import builder, digest

FOLDER = Path(sys.argv[1])
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""
EPOCHS = int(sys.argv[3]) if len(sys.argv) > 3 else 4
RANK = os.environ.get("RANK") or os.environ["SLURM_PROCID"]


def fail_once(training, metrics):
    if not FAULT or training.rank != 1 or metrics.epoch != 1 or (FOLDER / "fault").exists():
        return
    (FOLDER / "fault").touch()
    if FAULT == "raise":
        raise ValueError("this epoch is bad")
    os.kill(os.getpid(), signal.SIGKILL)


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
    handle = made.run_dir(FOLDER / "run").resume("auto").run()
    state = handle.join()
    (FOLDER / f"digest-{RANK}").write_text(f"{digest(state)} {handle.world_size()}")
    sys.stdout.write(f"rank {RANK} is through\n")
