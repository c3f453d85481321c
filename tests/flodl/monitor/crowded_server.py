"""A monitor in a process of its own, so that its memory, descriptors and threads can be counted.

`python -m tests.flodl.monitor.crowded_server` prints the address of the page and records an epoch ten times a
second until its standard input ends. Then it prints how many epochs it recorded and how many it has.
"""

import random
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from flodl.monitor.monitor import Monitor
from tests.flodl.monitor.streams import Stream, request

ROOT = Path(__file__).parents[3]


def main():
    monitor = Monitor(0, quiet=True, resources=False)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    sys.stdout.write(monitor.serve() + "\n")
    sys.stdout.flush()
    count = 0
    while not ended.wait(0.1):
        monitor.log(count, 0.1, {"loss": 1.0})
        count += 1
    monitor.flush()
    sys.stdout.write(f"{count} {len(monitor.history())}\n")
    monitor.finish()


class CrowdedServer:
    """The process, and what it takes of the machine.

    Attributes:
        url: the address of the page.
        at_rest: how many descriptors and threads it has before the first client.
    """

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.flodl.monitor.crowded_server"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.url = self._process.stdout.readline().decode().strip()
        self.at_rest = self.descriptors(), self.threads()

    def close(self):
        """Return what it printed at its end: recorded epochs, epochs that it has, and errors."""
        answer, errors = self._process.communicate(timeout=60)
        return *map(int, answer.split()), errors.decode()

    def memory(self):
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def descriptors(self):
        return len([*Path(f"/proc/{self._process.pid}/fd").iterdir()])

    def threads(self):
        return len([*Path(f"/proc/{self._process.pid}/task").iterdir()])

    def settled(self):
        """Return how many descriptors and threads it has when it is at rest again, or after 15 s."""
        limit = time.monotonic() + 15
        while (found := (self.descriptors(), self.threads())) != self.at_rest:
            if time.monotonic() > limit:
                break
            time.sleep(0.05)
        return found


def reconnect(url, count, seed):
    """Come `count` times, and leave in every way; return how often each way was taken."""
    generator = random.Random(seed)
    ways = dict.fromkeys(("stream", "stream, reset", "page", "half a request", "nothing"), 0)
    place = urlsplit(url)
    for _ in range(count):
        way = generator.choice([*ways, "stream"])
        ways[way] += 1
        if way.startswith("stream"):
            with Stream(url) as stream:
                if generator.randrange(2):
                    next(stream.messages())
                if way == "stream, reset":
                    reset(stream._socket)
        elif way == "page":
            status, _, body = request(url, generator.choice(["/", "/api/snapshot", "/epochs.csv"]))
            assert status == 200
            assert body
        else:
            with socket.create_connection((place.hostname, place.port), timeout=10) as client:
                if way == "half a request":
                    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-")
                if generator.randrange(2):
                    reset(client)
    return ways


def reset(client):
    """Have a socket reset its connection when it is closed, as one that goes to sleep does."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


if __name__ == "__main__":
    main()
