"""The protocol of the prover: the task of a verification and the evidence that it gives, as plain values.

Example: `fdl port` sends the fields of a `Request` as JSON and reads back one message for each event,
among them `{"event": "class", "result": {"name": "Net", "status": "equal", ...}}`.

The tool imports this module, so it needs no torch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, final

VERSION: Final = 2
# The byte that asks the server for a process. Torch imports Dynamo with the first optimizer, for a second
# and more (`torch._compile`), so the server imports it where workers will, and they inherit it.
PLAIN: Final = b"p"
OPTIMIZING: Final = b"o"
Status = Literal["equal", "close", "different", "not-run"]
STATUSES: tuple[Status, ...] = ("equal", "close", "different", "not-run")
Task = Literal["check", "record", "curve", "fast"]
# Why nothing is proved of a class: the time was over, no inputs were found that the original takes, it
# does not run, or what it gives cannot be compared (it is random, or of a type that cannot be looked into).
NotRunReason = Literal["time", "no-inputs", "does-not-run", "not-compared"]
NOT_RUN_REASONS: tuple[NotRunReason, ...] = ("time", "no-inputs", "does-not-run", "not-compared")

# Whether two trainings came to the same weights; worst last.
Equality = Literal["equal", "rounding", "different"]
EQUALITIES: tuple[Equality, ...] = ("equal", "rounding", "different")
# A step is measured for so many seconds, and weights are compared after so many steps.
MEASURED_S: Final = 3.0
COMPARED_STEPS: Final = 10

# Error codes that decide about more than the words of a report.
NO_MODULE: Final = "not-a-module"
# It is there to be extended: nothing of it can be called by itself.
NO_FORWARD: Final = "no-forward"
# It was not compared in its time.
TIME_LIMIT: Final = "time-limit"
PORT_RAISES: Final = "port-raises"
# It raises because a value was taken for a tensor of the flow that is none at run time.
PLAIN_VALUE: Final = "port-asks-plain-value"

# Worst last: the status of a class is the worst of its checks that ran.
SEVERITY: tuple[Status, ...] = ("equal", "close", "different")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The files to compare, with absolute paths.

    User code may write to `workdir` alone, which each of its processes has its own of.
    `ported_sha256` is the digest of the text that is to be proved. `started_at` is when the limit of
    time began, in seconds since the epoch, if known: starting a process takes some of it on a busy
    machine. `threads` are those with which steps are measured; None means all that there are.
    """

    task: Task
    original: Path
    ported: Path
    classes: tuple[str, ...]
    examples: tuple[str, ...]
    search_path: tuple[Path, ...]
    limit_s: float
    class_limit_s: float
    memory_mb: int
    workdir: Path = Path()
    ported_search_path: tuple[Path, ...] = ()
    recording: Path | None = None
    ported_sha256: str = ""
    drawings: bool = False
    started_at: float | None = None
    threads: int | None = None

    def left_s(self) -> float:
        """Return the seconds that are left of the limit; a clock that was set takes half of it at most."""
        gone = 0.0 if self.started_at is None else time.time() - self.started_at
        return self.limit_s - min(max(gone, 0.0), self.limit_s / 2)

    def fields(self) -> dict[str, Any]:
        """Return the values of JSON that stand for this request."""
        return {
            "version": VERSION,
            "task": self.task,
            "original": str(self.original),
            "ported": str(self.ported),
            "ported_sha256": self.ported_sha256,
            "classes": list(self.classes),
            "examples": list(self.examples),
            "search_path": [str(folder) for folder in self.search_path],
            "ported_search_path": [str(folder) for folder in self.ported_search_path],
            "drawings": self.drawings,
            "recording": None if self.recording is None else str(self.recording),
            "limit_s": self.limit_s,
            "started_at": self.started_at,
            "class_limit_s": self.class_limit_s,
            "memory_mb": self.memory_mb,
            "threads": self.threads,
        }

    def in_folder(self, folder: Path) -> Request:
        """Return the same request with another folder to write to."""
        return replace(self, workdir=folder)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEvidence:
    """The result of one check on one class; `detail` is never empty unless the status is equal."""

    name: str
    status: Status
    detail: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassEvidence:
    """The evidence for one class after the comparison.

    `status` is the worst of the checks, and never better than what was really run. `example` says
    how constructor arguments and inputs were found. `error_code` names the kind of trouble
    (kebab-case), `line` the line of the ported file (of the original where that is at fault).
    `drawing` is an SVG picture of the graph, where one was requested. `reason` says why the status is
    `not-run`; None where there is nothing to run.
    """

    name: str
    status: Status
    detail: str
    checks: tuple[CheckEvidence, ...] = ()
    example: str = ""
    error_code: str | None = None
    line: int | None = None
    drawing: str = ""
    reason: NotRunReason | None = None


class Response(Protocol):
    """The receiver of results, each as soon as it is known: later code may end the process."""

    def start(self, name: str, side: str) -> None:
        """Note which class and side is about to run user code."""

    def add(self, result: ClassEvidence) -> None:
        """Take the result of one class, in place of an earlier one."""

    def need(self, seconds: float) -> None:
        """Take the seconds that the whole task would have needed, where they were not enough."""

    def fail(self, error: str, *, source_runs: bool) -> None:
        """Note what keeps the comparison from starting, or what stopped the import of the original."""


def request_of(fields: Mapping[str, Any]) -> Request:
    """Return the request that values of JSON stand for.

    Raises:
        ValueError: they are no request of this version.
    """
    if fields.get("version") != VERSION:
        raise ValueError(f"not a verification request of version {VERSION}")
    recording = fields["recording"]
    return Request(
        task=fields["task"],
        original=Path(fields["original"]),
        ported=Path(fields["ported"]),
        classes=tuple(fields["classes"]),
        examples=tuple(fields["examples"]),
        search_path=tuple(Path(item) for item in fields["search_path"]),
        ported_search_path=tuple(Path(item) for item in fields["ported_search_path"]),
        drawings=bool(fields["drawings"]),
        recording=None if recording is None else Path(recording),
        ported_sha256=fields["ported_sha256"],
        limit_s=float(fields["limit_s"]),
        class_limit_s=float(fields["class_limit_s"]),
        memory_mb=int(fields["memory_mb"]),
        started_at=fields["started_at"],
        threads=fields["threads"],
    )
