"""Count how many files, and how many changes of file, a call of the project passes through.

Usage: `python benchmarks/trips.py [--list] [--json FILE]`

Whoever reads a call to its end, or steps through it in a debugger, makes the same trip. The trip `block`
traces a block of three operations, from its constructor to the result of its first call. The trip `port`
ports a file with one class of 11 lines, as `fdl port FILE --no-verify` does. The table
shows files, changes of file, different functions and calls.

`--list` prints the files of each trip in the order of their first call, with the number of calls in each.

Only the files below the roots of the project count. A change of file is a call whose file differs from that
of the nearest calling frame of the project; torch, libcst and the user's class between the two are looked
through. The first call of a trip has no such frame, and is no change. A return is no change either: every
call returns once, so returns would only double the figure. A lambda or a comprehension with a frame is a
function, and a resumed generator is a call.

A module frame is no part of a trip, nor is any call below one: they are import work. Each trip is first made
with another input, so that its imports are done and its caches for the process are full; the counted trip is
the first of its input, so make it once per process. Generated code belongs to no file, and other threads and
child processes are not counted. The collector is off, as finalizers would run at any moment.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.shared import conditions
from fdl_cli.porter.port_tree import port_tree
from fdl_cli.porter.tree_request import TreeRequest
from flodl import Flow, FlowModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType

    from fdl_cli.porter.ir.port_data import PortData

ROOT = Path(__file__).resolve().parents[1]
ROOTS = tuple(ROOT / name for name in ("flodl", "fdl_cli", "flodl_verify"))
WIDTH = 8
HEAD = ("| Trip | Files | Changes of file | Functions | Calls |", "|---|---|---|---|---|")


class Block(FlowModule):
    """The input of the trip `block`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, WIDTH)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.norm).through(self.fc).through(torch.relu)


class WarmBlock(FlowModule):
    """Another block, for the imports."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 1)
        self.norm = nn.BatchNorm1d(WIDTH)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.mix).through(self.norm).through(torch.tanh)


# The input of the trip `port`.
PLAIN = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        y = self.fc(y)
        y = torch.relu(y)
        return x + y
"""

# Another file, for the imports.
WARM_PLAIN = """\
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        x = F.gelu(self.conv(x))
        return self.layers(x).mean(1)
"""


@final
@dataclass
class Counter:
    """A profile function that counts the calls into the files below some folders."""

    roots: tuple[Path, ...]
    changes: int = 0
    calls_by_file: dict[str, int] = field(default_factory=dict)
    functions: set[CodeType] = field(default_factory=set)
    _files: dict[str, str | None] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, int]:
        """The row of the table."""
        return {
            "files": len(self.calls_by_file),
            "changes": self.changes,
            "functions": len(self.functions),
            "calls": sum(self.calls_by_file.values()),
        }

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call; returns and calls of C functions are left out."""
        if event != "call":
            return
        file = self._file_of(frame)
        if file is None:
            return
        callers = list(self._callers(frame))
        if any(each.f_code.co_name == "<module>" for each in (frame, *callers)):
            return
        self.calls_by_file[file] = self.calls_by_file.get(file, 0) + 1
        self.functions.add(frame.f_code)
        self.changes += bool(callers) and self._file_of(callers[0]) != file

    def _callers(self, frame: FrameType) -> Iterator[FrameType]:
        """Yield the calling frames of the project, the nearest first."""
        caller = frame.f_back
        while caller is not None:
            if self._file_of(caller) is not None:
                yield caller
            caller = caller.f_back

    def _file_of(self, frame: FrameType) -> str | None:
        name = frame.f_code.co_filename
        if name not in self._files:
            self._files[name] = self._relative(name)
        return self._files[name]

    def _relative(self, name: str) -> str | None:
        """Return a file with the name of its root; none for generated code and foreign files."""
        path = Path(name)
        if not path.is_absolute():
            return None
        path = path.resolve()
        for root in self.roots:
            if path.is_relative_to(root):
                return path.relative_to(root.parent).as_posix()
        return None


def count(trip: Callable[[], object], roots: Sequence[Path] = ROOTS) -> Counter:
    """Make a trip and count the calls on its way; an exception of the trip is passed on."""
    counter = Counter(tuple(root.resolve() for root in roots))
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(counter)
    try:
        trip()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return counter


def block_trip() -> Counter:
    """Count the construction and the first call of `Block`."""
    WarmBlock()(torch.ones(2, WIDTH, 3))
    x = torch.ones(2, WIDTH)
    return count(lambda: Block()(x))


def port_trip() -> Counter:
    """Count the port of `PLAIN`."""
    with tempfile.TemporaryDirectory() as name:
        warm, file = Path(name) / "warm.py", Path(name) / "model.py"
        warm.write_text(WARM_PLAIN, encoding="utf-8")
        file.write_text(PLAIN, encoding="utf-8")
        port_unproved(warm)
        ported: list[PortData] = []
        counter = count(lambda: ported.append(port_unproved(file)))
    (outcome,) = ported[0].files
    if outcome.status != "ported":
        sys.exit(f"the class of the trip `port` is no longer ported: {'; '.join(outcome.summary)}")
    return counter


def port_unproved(file: Path) -> PortData:
    """Port one file beside itself, with the request that `fdl port FILE --no-verify` makes."""
    request = TreeRequest(
        paths=(file,),
        output=None,
        in_place=False,
        write=True,
        force=False,
        verify=None,
        prove_script=None,
        examples=(),
        python=sys.executable,
        timeout_s=300.0,
        want_diff=False,
        want_plan=False,
        training="keep",
        dry_run=False,
        jobs=1,
        html=None,
    )
    data, _ = port_tree(request, note=lambda _: None)
    return data


TRIPS: dict[str, Callable[[], Counter]] = {"block": block_trip, "port": port_trip}


def row(name: str, numbers: dict[str, int]) -> str:
    """Return the row of one trip in the table."""
    columns = (numbers[each] for each in ("files", "changes", "functions", "calls"))
    return f"| {name} | {' | '.join(map(str, columns))} |"


def main(words: list[str]) -> int:
    """Count the trips one after the other, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the files of each trip")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    options = parser.parse_args(words)
    found = {name: trip() for name, trip in TRIPS.items()}
    missed = [name for name, counter in found.items() if not counter.calls_by_file]
    if missed:
        sys.exit(f"no call of `{missed[0]}` is below {ROOT}: install the project from there")
    print(*HEAD, sep="\n")
    for name, counter in found.items():
        print(row(name, counter.numbers))
    if options.list:
        for name, counter in found.items():
            print(f"\n{name}")
            for file, calls in counter.calls_by_file.items():
                print(f"{calls:>6}  {file}")
    if options.json is not None:
        trips = {name: counter.numbers for name, counter in found.items()}
        whole = {"measured": conditions.measured("torch"), "trips": trips}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
