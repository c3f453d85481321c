"""Compare the downloader with curl on loopback: throughput, and peak memory by file size.

    python benchmarks/download.py [MEGABYTES] [ROUNDS]

The server is a process of its own that sends a file with `sendfile`. Both clients write to
the same disk; ours also computes the checksum, and for fairness that is not asked of curl.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FETCH = """
import resource, sys, time
from pathlib import Path
from fdl_cli.net.artefact import Artefact, SilentProgress
from fdl_cli.net.download import fetch_all
from fdl_cli.net.store import Store
import httpx
url, sha, size, cache = sys.argv[1:]
item = Artefact(name="big.bin", urls=(url,), sha256=sha, size=int(size))
started = time.perf_counter()
fetch_all([item], Store(Path(cache)), progress=SilentProgress())
seconds = time.perf_counter() - started
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

SERVE = """
import os, socket, sys
path = sys.argv[1]
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    request = b""
    while b"\\r\\n\\r\\n" not in request:
        request += connection.recv(65536)
    size = os.path.getsize(path)
    head = f"HTTP/1.1 200 OK\\r\\nContent-Length: {size}\\r\\nConnection: close\\r\\n\\r\\n"
    connection.sendall(head.encode())
    with open(path, "rb") as file:
        connection.sendfile(file)
    connection.close()
"""


def main() -> None:
    """Print both speeds, their ratio and our peak memory for a large and a small file."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, curl = measure(folder, megabytes, rounds)
        small = measure(folder, max(8, megabytes // 16), 1)[0]
    speed = {
        "curl": megabytes / statistics.median(curl),
        "fdl": megabytes / statistics.median(seconds for seconds, _ in ours),
    }
    memory = {"large": ours[0][1] // 1024, "small": small[0][1] // 1024}
    print(json.dumps({
        "megabytes": megabytes,
        "megabytes_per_second": {key: round(value) for key, value in speed.items()},
        "ratio": round(speed["fdl"] / speed["curl"], 3),
        "peak_memory_mib": memory,
    }, indent=2))  # fmt: skip


def measure(
    folder: Path, megabytes: int, rounds: int
) -> tuple[list[tuple[float, int]], list[float]]:
    """Return seconds and memory of our runs, and seconds of curl's."""
    source = folder / "source.bin"
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()
    with source.open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
            digest.update(block)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(source)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/big.bin"
    ours, curl = [], []
    try:
        for number in range(rounds):
            curl.append(run_curl(url, folder / "curl.bin"))
            cache = folder / f"cache-{number}"
            words = [url, digest.hexdigest(), str(megabytes << 20), str(cache)]
            done = subprocess.run(
                [sys.executable, "-c", FETCH, *words], capture_output=True, text=True, check=True
            )
            seconds, memory = done.stdout.split()
            ours.append((float(seconds), int(memory)))
            subprocess.run(["rm", "-rf", str(cache)], check=True)
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
    return ours, curl


def run_curl(url: str, target: Path) -> float:
    """Return how long curl takes."""
    started = time.perf_counter()
    subprocess.run(["curl", "-sf", "-o", str(target), url], check=True)
    seconds = time.perf_counter() - started
    target.unlink()
    return seconds


if __name__ == "__main__":
    main()
