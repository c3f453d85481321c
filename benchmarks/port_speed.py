"""Measure how many lines per second of CPU time the porter ports, without verification.

Usage: `python benchmarks/port_speed.py [PATH...]` (default: the packages the tests port); every file is
read, understood, planned, written and checked. The exit code is 1 if the bar is missed.
"""

import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fdl_cli.porter.port_file import port_file

BAR = 1000
PACKAGES = ("pytorchcv", "perceiver_pytorch")


def default_paths() -> Iterator[Path]:
    """Yield the folders of the development packages that are installed."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            yield Path(spec.submodule_search_locations[0])


def sources(paths: list[Path]) -> list[Path]:
    """Return all Python files, sorted."""
    return sorted(
        file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])
    )


def main() -> int:
    """Port everything once and print the speed and the slowest file."""
    files = sources([Path(word) for word in sys.argv[1:]] or list(default_paths()))
    if not files:
        print("nothing to measure: install the development packages or name a folder")
        return 1
    lines, slowest = 0, (0.0, files[0])
    started = time.process_time()
    for file in files:
        before = time.process_time()
        data = file.read_bytes()
        port_file(data, file, None)
        lines += data.count(b"\n")
        slowest = max(slowest, (time.process_time() - before, file))
    seconds = time.process_time() - started
    speed = lines / seconds
    print(f"{len(files)} files, {lines} lines, {seconds:.2f} s: {speed:.0f} lines/s (bar {BAR})")
    print(f"slowest: {slowest[1].name}, {slowest[0]:.3f} s")
    return 0 if speed >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
