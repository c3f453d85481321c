"""Measure what a monitor costs a training, and how soon its page knows; exit code 1 if a bar is missed.

Usage: `python benchmarks/monitor.py`. Readers run in a process of their own, as browsers do.
"""

import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from urllib.parse import urlsplit

import torch
from torch import nn

from flodl.monitor.monitor import Monitor
from flodl.monitor.page import page_html
from flodl.monitor.store.frames import Note, Rows, encode
from flodl.monitor.store.storage import open_reader

RECORD_US = 2.0
SLOWER_SHARE = 0.01
LATENCY_MS = 50.0
PAGE_BYTES = 150_000
ARCHIVE_BYTES = 5_000_000
OPEN_S = 1.0
ZOOM_MS = 33.0
READERS = 20
ROUNDS = 24


def main() -> int:
    """Run every measurement and compare it with its bar."""
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--readers"]:
        return read(sys.argv[2])
    results = [
        ("record() of five scalars", record_us(), RECORD_US, "us"),
        ("step with 20 readers / without", *step_ratio(), "x"),
        ("event to reader, p95", latency_ms(), LATENCY_MS, "ms"),
        ("event to a page in a browser, p95", browser_ms(), LATENCY_MS, "ms"),
        ("page", len(page_html()) / 1000, PAGE_BYTES / 1000, "kB"),
        ("archive of 10,000 epochs", archive_bytes() / 1000, ARCHIVE_BYTES / 1000, "kB"),
        *million(),
    ]
    missed = 0
    for name, value, bar, unit in results:
        held = value <= bar
        missed += not held
        print(f"{name:36} {value:10.3f} {unit:3} bar {bar:g} {'' if held else '  MISSED'}")
    return 1 if missed else 0


def record_us() -> float:
    """Return the median time of `record` while the monitor's threads work."""
    monitor = Monitor(0, quiet=True)
    values = {f"metric_{i}": 0.5 for i in range(5)}
    rounds = []
    for block in range(60):
        began = time.perf_counter()
        for step in range(200):
            monitor.record(block * 200 + step, values)
        rounds.append((time.perf_counter() - began) / 200 * 1e6)
        time.sleep(0.01)
    monitor.finish()
    spread = statistics.quantiles(rounds, n=10)
    print(
        f"record(): median {statistics.median(rounds):.2f} us, 10 % {spread[0]:.2f}, 90 % {spread[-1]:.2f}"
    )
    return statistics.median(rounds)


def readers(url: str) -> subprocess.Popen[str]:
    """Start a process with twenty readers and wait until all are there."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--readers", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


def step_ratio() -> tuple[float, float]:
    """Return step time with twenty readers divided by step time with none, and its bar."""
    model = nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))

    def steps(monitor: Monitor, first: int) -> list[float]:
        times = []
        for step in range(first, first + 400):
            began = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            monitor.record(step, {"loss": loss, "lr": 1e-3})
            if step % 50 == 0:
                monitor.event("tick", str(step))
            times.append(time.perf_counter() - began)
        return times

    alone, watched = (Monitor(0, quiet=True, resources=False) for _ in range(2))
    child = readers(watched.serve())
    steps(alone, 0)
    ratios, shown = [], []
    for number in range(ROUNDS):
        pair = (alone, watched) if number % 2 else (watched, alone)
        found = {id(each): statistics.median(steps(each, number * 400)) for each in pair}
        ratios.append(found[id(watched)] / found[id(alone)])
        shown.append(found[id(alone)])
    child.communicate("end\n")
    alone.finish()
    watched.finish()
    low, _, high = statistics.quantiles(ratios, n=4)
    print(
        f"step: {statistics.median(shown) * 1e6:.0f} us alone, with readers x{statistics.median(ratios):.4f} "
        f"(quartiles {low:.4f} to {high:.4f})"
    )
    return statistics.median(ratios), 1 + SLOWER_SHARE


def latency_ms() -> float:
    """Return the 95th percentile of the time from `log` to each of twenty readers in another process."""
    monitor = Monitor(0, quiet=True, resources=False)
    child = readers(monitor.serve())
    for epoch in range(200):
        monitor.log(epoch, 0.05, {"loss": 1.0})
        time.sleep(0.05)
    monitor.flush()
    time.sleep(0.3)
    out, _ = child.communicate("end\n")
    monitor.finish()
    found = json.loads(out.splitlines()[-1])
    assert len(found) == READERS * 200, len(found)
    found.sort()
    middle, late = found[len(found) // 2], found[int(0.95 * len(found))]
    print(f"event to reader: median {middle:.1f} ms, p95 {late:.1f}, max {found[-1]:.1f}")
    return float(late)


def browser_ms() -> float:
    """Return the 95th percentile of the time from `log` to the page that draws it; nan without Chromium."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.flodl.monitor.chromium import BROWSER, Chromium

    if BROWSER is None:
        print("event to a page in a browser: there is no chromium on the PATH")
        return float("nan")
    monitor = Monitor(0, quiet=True, resources=False)
    url = monitor.serve()
    monitor.log(0, 0.05, {"sent": time.time() * 1000})
    with tempfile.TemporaryDirectory() as profile, Chromium(profile) as browser:
        browser.open(url)
        browser.wait("[...fm.state.runs.values()].some((run) => run.epochs.metrics.sent)")
        browser.evaluate(
            "window.late = []; window.seen = 1;"
            "fm.listen(() => { const sent = [...fm.state.runs.values()][0].epochs.metrics.sent;"
            "for (; seen < sent.length; seen++) late.push(Date.now() - sent[seen]); });"
        )
        for epoch in range(1, 201):
            monitor.log(epoch, 0.05, {"sent": time.time() * 1000})
            time.sleep(0.05)
        monitor.flush()
        time.sleep(0.5)
        found = sorted(browser.evaluate("window.late"))
    monitor.finish()
    assert len(found) == 200, len(found)
    middle, late = found[len(found) // 2], found[int(0.95 * len(found))]
    print(f"event to a page: median {middle:.1f} ms, p95 {late:.1f}, max {found[-1]:.1f}")
    return float(late)


def read(url: str) -> int:
    """Be twenty readers until standard input says otherwise; print how late each epoch came."""
    parts = urlsplit(url)
    selector = selectors.DefaultSelector()
    buffers: dict[socket.socket, bytes] = {}
    for _ in range(READERS):
        each = socket.create_connection((parts.hostname, parts.port))
        each.sendall(f"GET /events HTTP/1.1\r\nHost: {parts.hostname}\r\n\r\n".encode())
        while b"event: snapshot" not in buffers.get(each, b""):
            buffers[each] = buffers.get(each, b"") + each.recv(1 << 16)
        buffers[each] = b""
        selector.register(each, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    late = []
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                print(json.dumps(late), flush=True)
                return 0
            connection = key.fileobj
            buffers[connection] += connection.recv(1 << 16)
            *whole, buffers[connection] = buffers[connection].split(b"\n\n")
            now = time.time()
            for message in whole:
                if b"event: epoch" in message:
                    data = json.loads(message.partition(b"data: ")[2])
                    late.append((now - data["time"]) * 1e3)


def archive_bytes() -> int:
    """Return the size of the archive of ten thousand epochs."""
    monitor = Monitor(0, quiet=True, resources=False)
    for epoch in range(10_000):
        monitor.log(
            epoch, 1.0, {"loss": 1 / (epoch + 1), "accuracy": 0.5 + epoch / 3e4, "lr": 1e-3}
        )
    monitor.finish()
    with tempfile.TemporaryDirectory() as folder:
        monitor.save_html(Path(folder) / "archive.html")
        return (Path(folder) / "archive.html").stat().st_size


def million() -> list[tuple[str, float, float, str]]:
    """Return the time to open a run of a million steps of five series, and to zoom into one."""
    total, per = 1_000_000, 300
    names = tuple(f"metric_{i}" for i in range(5))
    numbers = array("d", torch.randn(total, dtype=torch.float64).tolist())
    steps = array("d", range(total))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics" / "segment-000001.fdm"
        path.parent.mkdir()
        with path.open("wb") as file:
            file.write(encode(Note("start", {"title": "million", "total": 0, "pid": 1})))
            for at in range(0, total, per):
                part = slice(at, at + per)
                columns = (numbers[part],) * 5
                rows = Rows(
                    group="metrics",
                    names=names,
                    steps=steps[part],
                    times=steps[part],
                    columns=columns,
                )
                file.write(encode(rows))
        # Processor time: what a machine that does other things, too, takes longer is not ours.
        began = time.process_time()
        reader = open_reader(folder)
        opened = time.process_time() - began
    series = reader.run.series["metrics"]["metric_0"]
    assert series.count == total
    zooms = []
    for at in range(0, total, 25_000):
        began = time.perf_counter()
        series.window(at, at + 100_000, points=1500)
        zooms.append((time.perf_counter() - began) * 1e3)
    return [
        ("open 1,000,000 x 5 points, CPU time", opened, OPEN_S, "s"),
        ("zoom into one of them", statistics.median(zooms), ZOOM_MS, "ms"),
    ]


if __name__ == "__main__":
    sys.exit(main())
