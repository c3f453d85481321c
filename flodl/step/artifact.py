"""Compiled regions of steps on disk: made by a separate process, found again by every later run.

The file name is a digest of the recorded operations, the shapes, the versions and the processor, so a
file never has to be invalidated: another step has another name.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import torch
from torch import fx

from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.step.program import Program
    from flodl.step.regions.chain import Region

    Compiled: TypeAlias = Callable[..., Any]

_FORMAT = "flodl-step-1"
_LIBRARY = "step.so"
# Seconds that compiling took for an operation on this machine; until it is measured, those of two cores.
_PACE = "pace.json"
_USUAL_PACE = 0.02
_MOST_PACE = 60.0
_COMPILER = Path(__file__).with_name("compiler.py")


def cache_folder() -> Path:
    """Return where compiled steps are kept: `$FLODL_CACHE_DIR/steps`, or below the user's cache folder."""
    own = os.environ.get("FLODL_CACHE_DIR")
    if own:
        return Path(own) / "steps"
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "flodl" / "steps"


def compiler_missing(device: torch.device) -> str | None:
    """Return the missing requirement to compile for a device; None if it can be tried."""
    if device.type == "cpu":
        wanted = os.environ.get("CXX")
        names = [wanted] if wanted else ["g++", "clang++", "c++", "cl"]
        if not any(shutil.which(name) for name in names):
            return f"no C++ compiler ({', '.join(names)}) was found"
    return None


def digest(region: Region) -> str:
    """Return the name of a region: equal for equal operations, shapes, versions and machine."""
    parts = [
        _FORMAT,
        region.graph.code,
        *(f"{t.dtype}{tuple(t.shape)}{t.stride()}{t.device}" for t in region.examples),
        torch.__version__,
        platform.python_version(),
        f"{platform.machine()} {_processor()} {torch.backends.cpu.get_cpu_capability()}",
        f"{torch.get_num_threads()} threads",
    ]
    if any(each.is_cuda for each in region.examples):
        parts.append(torch.cuda.get_device_name())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features")
    return " ".join(sorted({line for line in lines if line.startswith(wanted)}))


def path_of(region: Region) -> Path:
    """Return the file of a region, whether it is compiled or not."""
    return cache_folder() / digest(region) / _LIBRARY


def is_compiled(region: Region) -> bool:
    """Return True if an earlier run has left the compiled region."""
    return path_of(region).exists()


def expected_seconds(operations: int) -> float:
    """Return how long compiling so many operations will take here, as earlier compilations did."""
    try:
        pace = float(json.loads((cache_folder() / _PACE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        pace = _USUAL_PACE
    # Another program may have written no pace at all, such as NaN, with which nothing would pay.
    return operations * (pace if 0 < pace < _MOST_PACE else _USUAL_PACE)


def note_seconds(operations: int, seconds: float) -> None:
    """Note how long a compilation took: half of the new pace is the old one."""
    pace = (expected_seconds(1) + seconds / operations) / 2
    with contextlib.suppress(OSError):
        place = cache_folder() / _PACE
        fresh = place.with_name(f"{_PACE}.{os.getpid()}")
        fresh.write_text(json.dumps(pace), encoding="utf-8")
        fresh.replace(place)


@final
class _Packer(pickle.Pickler):
    """Packs nodes and operations by name: to pickle a graph module is to run part of it."""

    def persistent_id(self, obj: Any) -> tuple[str, str] | None:
        """Return the placeholder of a node or an operation."""
        if isinstance(obj, fx.Node):
            return ("node", obj.name)
        if isinstance(obj, torch._ops.OpOverload):
            return ("operation", str(obj))
        return None


@final
class Compilation:
    """A compilation that runs in a separate process; `poll` never waits."""

    def __init__(self, program: Program, *, quietly: bool = True) -> None:
        """Start, unless an earlier run has left the result.

        Args:
            program: the program to compile.
            quietly: with low priority, because a training runs meanwhile.
        """
        self._quietly = quietly
        self.cached = False
        self.seconds = 0.0
        self.program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._output = b""
        self._paths = [path_of(each) for each in program.regions]
        new = zip(program.regions, self._paths, strict=True)
        self._new = [(region, path) for region, path in new if not path.exists()]
        # Those that no earlier run has compiled.
        self.operations = sum(len(region.graph.graph.nodes) for region, _ in self._new)
        if self._new:
            self._start()
        else:
            self.cached = True
            self._ended.set()

    def _start(self) -> None:
        self._paths[0].parent.parent.mkdir(parents=True, exist_ok=True)
        job = {
            "regions": [
                {
                    "nodes": [
                        (node.op, node.target, node.args, node.kwargs, node.name)
                        for node in region.graph.graph.nodes
                    ],
                    "inputs": [
                        (tuple(t.shape), t.stride(), t.dtype, str(t.device))
                        for t in region.examples
                    ],
                    "path": str(path),
                }
                for region, path in self._new
            ],
            "threads": torch.get_num_threads(),
            "workers": 1 if self._quietly else os.cpu_count() or 1,
            "niceness": 5 if self._quietly else 0,
        }
        packed = io.BytesIO()
        _Packer(packed).dump(job)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(_COMPILER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        # A compilation that is no longer needed ends, at the latest with this process.
        weakref.finalize(self, _end, self._process)
        threading.Thread(target=self._attend, args=(packed.getvalue(),), daemon=True).start()

    def _attend(self, packed: bytes) -> None:
        process = self._process
        assert process is not None
        start = time.monotonic()
        _, self._output = process.communicate(packed)
        self.seconds = time.monotonic() - start
        if process.returncode == 0:
            note_seconds(self.operations, self.seconds)
        self._ended.set()

    def poll(self) -> bool:
        """Return True if it has ended."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Wait until it has ended."""
        self._ended.wait()

    def result(self) -> Compiled:
        """Return the compiled step.

        Raises:
            RefusedStepError: compiling it failed.
        """
        failed = self._process is not None and self._process.returncode != 0
        if failed or not all(path.exists() for path in self._paths):
            lines = self._output.decode(errors="replace").strip().splitlines()
            raise RefusedStepError(f"compiling failed: {_complaint(lines)}")
        functions = [load(path, self.program.examples[0].device) for path in self._paths]
        chain = self.program.chain
        return functions[0] if chain is None else chain.linked(functions)

    def stop(self) -> None:
        """End the process, if it still runs."""
        if self._process is not None:
            _end(self._process)


def _complaint(lines: list[str]) -> str:
    """Return the last line that names an error; the lines after it are details."""
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (named or lines or ["no message"])[-1][:200]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()


def load(path: Path, device: torch.device) -> Compiled:
    """Return the function in a file that the compiler wrote; nothing of the compiler is imported.

    Raises:
        RefusedStepError: it cannot be loaded, and is removed.
    """
    names = {"cpu": "AOTIModelContainerRunnerCpu", "cuda": "AOTIModelContainerRunnerCuda"}
    try:
        runner: Any = getattr(torch._C._aoti, names[device.type])(str(path), 1)
        os.utime(path)  # the least used are removed first
    except (RuntimeError, OSError) as error:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise RefusedStepError(f"the compiled step cannot be loaded: {error}") from error
    return runner.run  # type: ignore[no-any-return]
