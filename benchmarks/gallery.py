"""Measure a training step of each example of the gallery: its port against the original, in one run.

Usage: `python benchmarks/gallery.py [--steps N] [--json FILE]`

Each example of `examples/pytorch` is ported with `fdl port`. Original and port then run as they are, each in
a thread, and take turns: one stops at the end of each optimizer step until the other one has made the same
step. So both have the same moments of the machine, and a step is that of the script: data, forward, loss,
backward, update. The random state changes hands too, so that each draws the numbers that it draws alone.
Both must print the same.

    original  step 1        step 2        step 3
    port             step 1        step 2        step 3

A step counts the processor time of its thread, with one thread for torch: other work on the machine changes
it little. The figure is the median of the ratios of the pairs, plus or minus the median absolute deviation.
The first steps of a script record flows and fill caches, and are left out. Where a script has two optimizers,
a step ends with the update of the one that comes first.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.shared import conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "pytorch"
RESULT = ROOT / "benchmarks" / "results" / "gallery.json"
STEPS = 120
WARM = 4
LIMIT_S = 12.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The step of an example: milliseconds of both, the ratio of pairs, and how far it spreads."""

    name: str
    steps: int
    original_ms: float
    port_ms: float
    ratio: float
    spread: float


def row_of(name: str, pairs: Sequence[tuple[float, float]]) -> Row:
    """Return the figures of pairs of seconds, original and port.

    Example:
        >>> row_of("vae", [(0.002, 0.001), (0.004, 0.003), (0.004, 0.002)]).ratio
        0.5
    """
    ratios = [port / original for original, port in pairs]
    middle = statistics.median(ratios)
    return Row(
        name=name,
        steps=len(pairs),
        original_ms=round(1e3 * statistics.median(each for each, _ in pairs), 3),
        port_ms=round(1e3 * statistics.median(each for _, each in pairs), 3),
        ratio=round(middle, 3),
        spread=round(statistics.median(abs(each - middle) for each in ratios), 3),
    )


@final
@dataclass(slots=True)
class _Runner:
    """One of two programs that take turns: its thread, its random state and the seconds of its steps."""

    main: Callable[[], object]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    other: _Runner | None = None
    printed: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    first: object = None
    began: float | None = None
    state: Any = None
    failure: BaseException | None = None
    is_over: bool = False

    def run(self) -> None:
        """Run the program, with a stop after each step."""
        self.turn.acquire()
        try:
            self.main()
        except BaseException as problem:  # it is raised again by the caller
            self.failure = problem
        self.is_over = True
        assert self.other is not None
        self.other.turn.release()

    def stepped(self, optimizer: object) -> None:
        """Note the end of a step, and let the other program make the same one."""
        self.first = self.first or optimizer
        if optimizer is not self.first:
            return
        if self.began is not None:
            self.seconds.append(time.thread_time() - self.began)
        assert self.other is not None
        if not self.other.is_over:
            state = torch.get_rng_state(), random.getstate()
            self.other.turn.release()
            self.turn.acquire()
            torch.set_rng_state(state[0])
            random.setstate(state[1])
        self.began = time.thread_time()


def side_by_side(original: ModuleType, port: ModuleType) -> list[tuple[float, float]]:
    """Run both programs in turns; return the seconds of each pair of steps.

    Raises:
        RuntimeError: one of them fails, or they print different texts.
    """
    runners = [_Runner(_started(each)) for each in (original, port)]
    runners[0].other, runners[1].other = runners[1], runners[0]
    texts = [io.StringIO(), io.StringIO()]
    threads = [threading.Thread(target=each.run, daemon=True) for each in runners]
    by_thread = dict(zip(threads, runners, strict=True))

    def stepped(optimizer: object, _args: object, _kwargs: object) -> None:
        by_thread[threading.current_thread()].stepped(optimizer)

    hook = register_optimizer_step_post_hook(stepped)
    out = _Printed(dict(zip(threads, texts, strict=True)))
    try:
        with contextlib.redirect_stdout(out):
            for each in threads:
                each.start()
            runners[0].turn.release()
            for each in threads:
                each.join()
    finally:
        hook.remove()
    for each in runners:
        if each.failure is not None:
            raise RuntimeError(str(each.failure)) from each.failure
    if texts[0].getvalue() != texts[1].getvalue():
        message = f"original and port print different texts:\n{texts[0].getvalue()}\n{texts[1].getvalue()}"
        raise RuntimeError(message)
    return list(zip(runners[0].seconds, runners[1].seconds, strict=True))[WARM:]


@final
class _Printed(io.TextIOBase):
    """Standard output that keeps what each thread prints apart."""

    def __init__(self, texts: dict[threading.Thread, io.StringIO]) -> None:
        self._texts = texts

    def write(self, text: str) -> int:
        return self._texts[threading.current_thread()].write(text)


def _started(module: ModuleType) -> Callable[[], object]:
    """Return a call of what a script does when it is started, below `if __name__ == "__main__":`."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (start,) = (
        each
        for each in tree.body
        if isinstance(each, ast.If) and "__main__" in ast.unparse(each.test)
    )
    code = compile(ast.Module(start.body, type_ignores=[]), module.__file__, "exec")
    return lambda: exec(code, vars(module))


def _module(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the source of classes are found by it
    spec.loader.exec_module(module)
    return module


def measured(name: str, folder: Path, steps: int) -> Row:
    """Port an example and time its steps, in as many runs as give enough of them."""
    source = EXAMPLES / f"{name}.py"
    target = folder / f"{name}_flodl.py"
    command = [
        sys.executable,
        "-m",
        "fdl_cli",
        "port",
        str(source),
        "-o",
        str(target),
        "--no-verify",
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environ, capture_output=True, check=True, timeout=300)
    original, port = _module(source, f"{name}_original"), _module(target, f"{name}_port")
    pairs: list[tuple[float, float]] = []
    started = time.process_time()
    while len(pairs) < steps and time.process_time() - started < LIMIT_S:
        # Whoever is first has the colder cache, so they change places.
        two = [side_by_side(original, port)]
        two.append([(one, other) for other, one in side_by_side(port, original)])
        pairs += two[0] + two[1]
    return row_of(name, pairs)


def head() -> dict[str, object]:
    """Return how and where this run measures."""
    return conditions.measured(
        "torch", clock="processor time of the thread, original and port in turns"
    )


def main() -> int:
    """Measure all examples and print them; with `--json`, write the result too."""
    parser = argparse.ArgumentParser(description="Measure a training step of each example.")
    parser.add_argument("--steps", type=int, default=STEPS, help="at least so many pairs of steps")
    parser.add_argument("--json", type=Path, help="where to write the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.argv[1:] = []  # the examples read it
    measurement = head()
    rows, loads = [], [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(EXAMPLES.glob("*.py")):
            rows.append(measured(path.stem, Path(folder), options.steps))
            loads.append(os.getloadavg()[0])
            print(rows[-1], flush=True)
    measurement["load"] = [round(min(loads), 2), round(max(loads), 2)]
    if options.json is not None:
        result = {"measured": measurement, "rows": [asdict(each) for each in rows]}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
