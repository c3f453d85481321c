"""The request and response files of a verification process, and their JSON form."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, final

Status = Literal["equal", "close", "different", "not-run"]
Task = Literal["check", "record", "curve"]
# Why nothing is proved of a class: the time was over, no inputs were found that the original takes, it
# does not run, or what it gives cannot be compared (it is random, or of a type that cannot be looked into).
Reason = Literal["time", "no-inputs", "does-not-run", "not-compared"]

RUNNING_SUFFIX = ".running"

# Worst last: the status of a class is the worst of its checks that ran.
SEVERITY: tuple[Status, ...] = ("equal", "close", "different")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compare, with absolute paths; one task writes `recording`, the other reads it.

    `started_at` is when the limit of time began, in seconds since the epoch, if known: starting a
    process and importing torch take seconds of it on a busy machine.
    """

    task: Task
    original: Path
    ported: Path
    classes: tuple[str, ...]
    examples: tuple[str, ...]
    search_path: tuple[Path, ...]
    workdir: Path
    recording: Path | None
    limit_s: float
    class_limit_s: float
    memory_mb: int
    ported_search_path: tuple[Path, ...] = ()
    drawings: bool = False
    started_at: float | None = None

    def left_s(self) -> float:
        """Return the seconds that are left of the limit; a clock that was set takes half of it at most."""
        gone = 0.0 if self.started_at is None else time.time() - self.started_at
        return self.limit_s - min(max(gone, 0.0), self.limit_s / 2)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check on one class; `detail` says what differed or why it could not run."""

    name: str
    status: Status
    detail: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """All checks of one class, with the example that they ran on; `drawing` is an SVG picture.

    `reason` says why the status is `not-run`; None where there is nothing to run.
    """

    name: str
    status: Status
    detail: str
    checks: tuple[CheckResult, ...] = ()
    example: str = ""
    error_code: str | None = None
    line: int | None = None
    drawing: str = ""
    reason: Reason | None = None


def read_request(path: Path) -> Request:
    """Read a request file.

    Raises:
        ValueError: the file is not a request of this version.
    """
    fields = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(fields, dict) or fields.pop("version", None) != 1:
        raise ValueError(f"{path}: not a verification request of version 1")
    recording = fields["recording"]
    return Request(
        task=fields["task"],
        original=Path(fields["original"]),
        ported=Path(fields["ported"]),
        classes=tuple(fields["classes"]),
        examples=tuple(fields["examples"]),
        search_path=tuple(Path(item) for item in fields["search_path"]),
        ported_search_path=tuple(Path(item) for item in fields.get("ported_search_path", ())),
        drawings=bool(fields.get("drawings", False)),
        workdir=Path(fields["workdir"]),
        recording=None if recording is None else Path(recording),
        limit_s=float(fields["limit_s"]),
        class_limit_s=float(fields["class_limit_s"]),
        memory_mb=int(fields["memory_mb"]),
        started_at=fields.get("started_at"),
    )


@final
class Response:
    """The answer, rewritten after every class, so that a killed process leaves what it knew.

    Beside it stands a file `*.running` with the class and the side at work, for the case of death.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._classes: dict[str, ClassResult] = {}
        self._needed_s: float | None = None
        self._running = path.with_suffix(RUNNING_SUFFIX).open("w", encoding="utf-8")
        self._source_runs = True
        self._error: str | None = None
        self._done = False
        self.write()

    def start(self, name: str, side: str) -> None:
        """Note which class and side is about to run user code."""
        self._running.seek(0)
        self._running.write(f"{side} {name}\n")
        self._running.flush()

    def add(self, result: ClassResult) -> None:
        """Report one class; what was reported of it before is replaced."""
        self._classes[result.name] = result
        self.write()

    def need(self, seconds: float) -> None:
        """Report the seconds that the whole task would have needed, where they were not enough."""
        self._needed_s = seconds

    def fail(self, error: str, *, source_runs: bool) -> None:
        """Report what keeps the comparison from starting, or what stopped the import of the original."""
        self._error = error
        self._source_runs = source_runs
        self.write()

    def finish(self) -> None:
        """Report that nothing more will come."""
        self._done = True
        self._running.close()
        self.write()

    def write(self) -> None:
        """Replace the response file as a whole, so that a reader never sees half of it."""
        payload = {
            "version": 1,
            "source_runs": self._source_runs,
            "error": self._error,
            "classes": [asdict(item) for item in self._classes.values()],
            "needed_s": self._needed_s,
            "done": self._done,
        }
        partial = self._path.with_name(self._path.name + ".partial")
        partial.write_text(json.dumps(payload), encoding="utf-8")
        partial.replace(self._path)
