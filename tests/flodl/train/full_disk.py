"""A training on a disk that is full for a while: `python -m tests.flodl.train.full_disk PLACE OTHER`.

`PLACE` is a small file system, `OTHER` a folder with room. After the third epoch a filler takes all the room,
until the sixth. One line of JSON tells what became of the training, beside the same one with room.
"""

import errno
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import RunDirectory, Trainer
from flodl.checkpoint.files import verify
from flodl.monitor.monitor import Monitor
from flodl.monitor.store.storage import open_reader

EPOCHS = 8
FILLED_AFTER, FREED_AFTER = 3, 6


def train(folder, on_epoch):
    x = torch.linspace(-1, 1, 64 * 16).reshape(64, 16)
    lines = []
    monitor = Monitor(EPOCHS, run=folder, resources=False)
    monitor._say = monitor._worker._say = lines.append
    builder = Trainer.builder(
        lambda: nn.Sequential(nn.Linear(16, 400), nn.Tanh(), nn.Linear(400, 16)),
        lambda params: torch.optim.SGD(params, lr=0.1),
        lambda model, batch: F.mse_loss(model(batch[0]), batch[0] ** 2),
    )
    builder = builder.dataset([x]).batch_size(16).num_epochs(EPOCHS).seed(0).step("eager")
    builder = builder.progress(False).run_dir(folder).checkpoints(steps=2, keep_last=2)

    def hook(training, metrics):
        on_epoch(metrics)
        monitor.event("note", "x" * 10_000)  # more than a block of the disk
        monitor.flush()

    state = builder.monitor(monitor).on("epoch", hook).run().join()
    monitor.finish()
    return state, lines


def fill(path):
    """Take the room that is left, to the last byte; return the reason for the end."""
    size, reason = 1 << 16, 0
    with path.open("wb", buffering=0) as file:
        while size:
            try:
                file.write(bytes(size))
            except OSError as problem:
                reason, size = problem.errno, size // 2
    return reason


def main():
    place, other = map(Path, sys.argv[1:])
    filler, reasons, epochs = place / "filler", [], []

    def on_epoch(metrics):
        epochs.append(metrics)
        if len(epochs) == FILLED_AFTER:
            reasons.append(errno.errorcode[fill(filler)])
        elif len(epochs) == FREED_AFTER:
            filler.unlink()

    state, lines = train(place / "run", on_epoch)
    whole, _ = train(other / "run", lambda *_: None)
    checkpoints = RunDirectory.open(place / "run").checkpoints
    reader = open_reader(place / "run")
    found = {
        "filled": reasons,
        "stopped_by": state.stopped_by,
        "equal": all(map(torch.equal, state.parameters.values(), whole.parameters.values())),
        "notices": state.notices,
        "lines": lines,
        "epochs": [each.epoch for each in reader.history()],
        "damaged": reader.damaged,
        "events": sum(each["kind"] == "note" for each in reader.run.events),
        "checkpoints": {each.step: verify(each.path) for each in checkpoints.entries()},
        "left over": [each.name for each in (place / "run").rglob("*tmp*")],
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
