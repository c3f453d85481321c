"""Serves runs of other processes: `python -m flodl.monitor PLACE...`, until it is interrupted.

With `--export FILE` it writes one page with all runs instead, with `--records` their records as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flodl.monitor.access import Access
from flodl.monitor.addresses import address_lines
from flodl.monitor.export import archive_of
from flodl.monitor.run_list import RunList, runs_below
from flodl.monitor.server import MonitorServer
from flodl.monitor.store.record_log import record_lines
from flodl.monitor.store.storage import Reader
from flodl.observe.export import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USUAL_PORT: Final = 8420
PORT_TAKEN: Final = 3
NO_RUNS: Final = 4
CANNOT_WRITE: Final = 5


def main(argv: list[str]) -> int:
    """Serve and say where: as text for people, or as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m flodl.monitor", description=__doc__)
    parser.add_argument("places", nargs="*", type=Path, help="runs, or folders with runs")
    parser.add_argument("--port", type=int, help=f"{USUAL_PORT} or a free one if not given")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--allow-host", action="append", default=[])
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    parser.add_argument("--idle", type=float, default=0, help="end after seconds without a reader")
    parser.add_argument("--with-parent", type=int, help="end when this parent process has ended")
    parser.add_argument("--export", type=Path, help="write the page to a file and end")
    parser.add_argument("--records", action="store_true", help="print records as JSON lines")
    parser.add_argument("--text", action="store_true", help="say it for people")
    asked = parser.parse_args(argv)
    if asked.records:
        return print_records(asked.places or [Path.cwd()])
    if asked.export is not None:
        return export(asked.places or [Path.cwd()], asked.export)
    return _detached(asked) if asked.detach else serve(asked, text if asked.text else line)


def serve(asked: argparse.Namespace, ready: Callable[[dict[str, Any]], None]) -> int:
    """Serve until a signal comes, or no page has been open for long.

    Args:
        asked: the command line.
        ready: is told where and what.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run_list = RunList(asked.places or [Path.cwd()])
    try:
        server = _listen(run_list, asked)
    except OSError as problem:
        ready({"error": problem.strerror or str(problem), "port": asked.port})
        return PORT_TAKEN
    run_list.start()
    ready(
        {
            "url": server.url,
            "port": server.port,
            "pid": os.getpid(),
            "runs": run_list.names,
            "addresses": address_lines(server.url),
        }
    )
    looked = time.monotonic()
    while not stop.wait(1):
        # A parent that was killed said nothing, and this process has another one now.  Its number comes from
        # the parent itself: it may be gone before this process has imported torch.
        if asked.with_parent and os.getppid() != asked.with_parent:
            break
        if run_list.hub.audience:
            looked = time.monotonic()
        elif asked.idle and time.monotonic() - looked > asked.idle:
            break
    run_list.stop()
    server.close()
    return 0


def export(places: Sequence[Path], file: Path) -> int:
    """Write one page with all runs below some places; print their names on a line of JSON."""
    run_list = RunList(places)
    if not run_list.names:
        return NO_RUNS
    try:
        write_text(file, archive_of(run_list.runs))
    except OSError as problem:
        line({"error": problem.strerror or str(problem)})
        return CANNOT_WRITE
    line({"runs": run_list.names})
    return 0


def print_records(places: Sequence[Path]) -> int:
    """Print every record of the runs below some places, oldest run first, each in the order of its files."""
    folders = runs_below(places)
    try:
        for folder in folders:
            reader = Reader(folder)
            for frame in reader.frames():
                for each in record_lines(frame, reader.run.title):
                    sys.stdout.write(f"{each}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # A reader such as `head` has ended; Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if folders else NO_RUNS


def text(about: dict[str, Any]) -> None:
    """Print it for people."""
    if "error" in about:
        return  # the exit code says it
    count = len(about["runs"])
    shown = f"showing {count} run{'' if count == 1 else 's'}; Ctrl-C ends it"
    sys.stdout.write("\n".join((*about["addresses"], shown, "")))
    sys.stdout.flush()


def line(about: dict[str, Any]) -> None:
    """Print it for programs."""
    sys.stdout.write(f"{json.dumps(about)}\n")
    sys.stdout.flush()


def _listen(run_list: RunList, asked: argparse.Namespace) -> MonitorServer:
    access = Access(host=asked.host, hosts=tuple(asked.allow_host))
    if asked.port is not None:
        return MonitorServer(run_list.hub, access=access, port=asked.port)
    try:
        return MonitorServer(run_list.hub, access=access, port=USUAL_PORT)
    except OSError:
        return MonitorServer(run_list.hub, access=access, port=0)


def _detached(asked: argparse.Namespace) -> int:
    """Have a child serve, which outlives this process; end when it is ready."""
    inner, outer = os.pipe()
    if os.fork():
        os.close(outer)
        with os.fdopen(inner) as reader:
            about = json.loads(reader.readline() or '{"error": "it ended early"}')
        line(about)
        return PORT_TAKEN if "error" in about else 0
    os.close(inner)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)

    def ready(about: dict[str, Any]) -> None:
        os.write(outer, f"{json.dumps(about)}\n".encode())
        os.close(outer)

    os._exit(serve(asked, ready))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
