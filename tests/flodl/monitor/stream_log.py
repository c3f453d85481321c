"""What somebody who reads the stream of a monitor knows, and trainings to read about."""

import random
import time

from tests.flodl.monitor.streams import Stream


class Log:
    """What somebody who reads the stream knows; fails when something comes twice or not at all."""

    def __init__(self):
        self.epochs = []
        self.points = 0
        self.finished = False
        self.cuts = 0

    def take(self, kind, data):
        if kind == "snapshot":
            (run,) = data["runs"].values()
            self.epochs = run["epochs"]["epoch"]
            self.points = run["series"]["metrics"].get("loss", 0)
            self.finished = run["status"] == "finished"
        elif kind == "epoch":
            assert data["index"] == len(self.epochs)
            self.epochs.append(data["epoch"])
        elif kind == "points":
            assert data["before"] == [self.points]
            self.points += data["count"]
        elif kind == "finish":
            self.finished = True


def follow(url, log, cuts=0, seed=0):
    """Read to the end, cutting the connection at random messages; return how often it was cut."""
    generator = random.Random(seed)
    last = ""
    limit = time.monotonic() + 60
    while not log.finished and time.monotonic() < limit:
        try:
            with Stream(url, last) as stream:
                left = generator.randint(1, 6) if log.cuts < cuts else -1
                for kind, data in stream.messages():
                    log.take(kind, data)
                    last = stream.last
                    left -= 1
                    if left == 0 and not log.finished:
                        log.cuts += 1
                        break
        except OSError:
            if log.finished:
                break
            time.sleep(0.01)
    return log.cuts


def train(monitor, epochs, pause=0.004):
    for epoch in range(epochs):
        train_one(monitor, epoch, pause)


def train_one(monitor, epoch, pause=0.004):
    for step in range(5):
        monitor.record(epoch * 5 + step, {"loss": 1.0})
    monitor.log(epoch, 0.1, {"valid": 1.0})
    time.sleep(pause)
