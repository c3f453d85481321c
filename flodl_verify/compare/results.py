"""The findings of the checks of one class, and their one result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from flodl_verify.protocol import (
    PLAIN_VALUE,
    PORT_RAISES,
    SEVERITY,
    CheckEvidence,
    ClassEvidence,
    Status,
)
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.values.comparison import Grade, Mismatch, worst_of

EVAL = "eval output"
BATCH = "second batch size"
TRAIN = "train output"
GRADIENTS = "gradients"
STATE = "state_dict"
INITIAL = "initial weights"
BUFFERS = "buffers"
STEPS = "training steps"
SIZES = "other sizes"
OPTIONAL = "optional inputs"
METHODS = "methods"
WORLD = "after changes"

# The seven checks that "verified" means, the loss curve, what shapes and signatures allow, and calls
# after a flag, tensors or the dtype of the model changed.
SEVEN = (EVAL, BATCH, TRAIN, GRADIENTS, STATE, INITIAL, BUFFERS)
ALL_CHECKS = (*SEVEN, STEPS, SIZES, OPTIONAL, METHODS, WORLD)

# The code of a class that holds or returns what the comparison cannot look into.
NOT_COMPARED = "not-compared"
_STATUS_OF: dict[Grade, Status] = {
    "close": "close", "unseen": "not-run", "different": "different",
}  # fmt: skip


@final
@dataclass(slots=True)
class Entry:
    """One check so far: how often it compared, its worst mismatch, why it did not run."""

    num_compared: int = 0
    worst: Mismatch | None = None
    where: str = ""
    not_run: str = ""


@final
@dataclass(slots=True)
class ClassResults:
    """The checks of one class over all of its cases."""

    entries: dict[str, Entry] = field(default_factory=dict)
    num_cases: int = 0
    line: int | None = None
    divergence: str = ""
    crash: str = ""
    plain_value: bool = False
    cut: str = ""
    unread: dict[str, None] = field(default_factory=dict)

    def compared(self, check: str, mismatches: Iterable[Mismatch], where: str) -> None:
        """Note one comparison of a check."""
        entry = self.entries.setdefault(check, Entry())
        entry.num_compared += 1
        worst = worst_of(mismatches)
        if worst is not None and (entry.worst is None or worst.rank > entry.worst.rank):
            entry.worst, entry.where = worst, where

    def left_out(self, names: Iterable[str]) -> None:
        """Note attributes that no call has set, and that cannot be looked into."""
        self.unread.update(dict.fromkeys(names))

    def not_run(self, check: str, reason: str) -> None:
        """Note why a check did not run; a comparison noted for the same check outweighs it."""
        entry = self.entries.setdefault(check, Entry())
        entry.not_run = entry.not_run or reason

    def port_failed(self, check: str, failure: Failure, line: int | None, where: str) -> None:
        """Note that the port raised where the original did not."""
        self.crash = self.crash or failure.text
        self.plain_value |= failure.code == "plain-value"
        self.line = self.line or line
        self.compared(check, (Mismatch(path="port", text=f"raised {failure.text}"),), where)

    @property
    def differs(self) -> bool:
        """Return True if any check found more than rounding."""
        return self._has("different")

    def _has(self, grade: Grade) -> bool:
        return any(e.worst is not None and e.worst.grade == grade for e in self.entries.values())

    @property
    def has_seven(self) -> bool:
        """Return True if each of the seven checks compared something, or cannot."""
        return all(check in self.entries for check in SEVEN)

    def result(self, name: str, example: str) -> ClassEvidence:
        """Return the result: never equal unless something was compared in both modes."""
        checks = tuple(
            _check_result(check, self.entries.get(check, Entry(not_run="not reached")))
            for check in ALL_CHECKS
            if check in self.entries or check in SEVEN
        )
        status: Status = "equal"
        for check in checks:
            if check.status in SEVERITY and SEVERITY.index(check.status) > SEVERITY.index(status):
                status = check.status
        if self._has("unseen") and not self.differs:
            # Never equal, nor close: the rest may be anything.
            return ClassEvidence(
                name=name,
                status="not-run",
                detail=self._unseen_detail(),
                checks=checks,
                example=example,
                error_code=NOT_COMPARED,
            )
        status_of = {check.name: check.status for check in checks}
        if status == "equal" and "not-run" in {status_of[EVAL], status_of[TRAIN]}:
            return ClassEvidence(
                name=name,
                status="not-run",
                detail=_first_detail(checks),
                checks=checks,
                example=example,
                error_code="nothing-compared",
            )
        return ClassEvidence(
            name=name,
            status=status,
            detail=self._detail(checks, status),
            checks=checks,
            example=example,
            error_code=self._error_code(status),
            line=self.line,
        )

    def _detail(self, checks: tuple[CheckEvidence, ...], status: Status) -> str:
        if status == "equal":
            missing = [f"{c.name} not run ({c.detail})" for c in checks if c.status == "not-run"]
            unread = [f"attributes not compared: {', '.join(self.unread)}"] if self.unread else []
            return "; ".join([*missing, *unread, *([self.cut] if self.cut else [])])
        worst = next(check for check in checks if check.status == status)
        text = f"{worst.name}: {worst.detail}"
        return f"{text}; {self.divergence}" if self.divergence else text

    def _unseen_detail(self) -> str:
        return next(
            f"{name}: {entry.worst} [{entry.where}]"
            for name, entry in self.entries.items()
            if entry.worst is not None and entry.worst.grade == "unseen"
        )

    def _error_code(self, status: Status) -> str | None:
        if status == "equal":
            return None
        if status == "different" and self.crash:
            return PLAIN_VALUE if self.plain_value else PORT_RAISES
        return "rounding-differs" if status == "close" else "values-differ"


def _check_result(name: str, entry: Entry) -> CheckEvidence:
    if entry.worst is not None:
        status = _STATUS_OF[entry.worst.grade]
        return CheckEvidence(name=name, status=status, detail=f"{entry.worst} [{entry.where}]")
    if entry.num_compared == 0:
        return CheckEvidence(name=name, status="not-run", detail=entry.not_run or "not reached")
    return CheckEvidence(name=name, status="equal", detail="")


def _first_detail(checks: tuple[CheckEvidence, ...]) -> str:
    return next(check.detail for check in checks if check.status == "not-run")
