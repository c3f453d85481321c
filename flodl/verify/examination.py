"""Compares one class of a ported file with its original, case by case."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import final

from flodl.verify.attempt import OutOfTimeError
from flodl.verify.divergence import first_divergence
from flodl.verify.ledger import Ledger
from flodl.verify.protocol import ClassResult, Request, Response
from flodl.verify.remote import (
    CaseRef,
    Clock,
    FailedError,
    Found,
    Opening,
    RemoteSide,
    UnusableAnswerError,
)
from flodl.verify.trial import Trial

MAX_TRIALS = 4
# The code of a class that was not compared in its time.
TIME_LIMIT = "time-limit"
# After this long, a class that was compared on one case is not compared on further ones, except
# on those that the user gave.
ENOUGH_S = 5.0
# A port that takes this much longer than the original, when the time is over, hangs.
HANGING_FACTOR = 20.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both programs, and what importing them came to."""

    original: RemoteSide
    port: RemoteSide
    original_opening: Opening
    port_opening: Opening
    clock: Clock


@final
class Examination:
    """The examination of one class."""

    def __init__(self, sides: Sides, request: Request, response: Response, limit_s: float) -> None:
        self._sides = sides
        self._opening = sides.original_opening
        self._limit_s = limit_s
        self._draws = request.drawings
        self._response = response

    def run(self, name: str, book: Found) -> ClassResult:
        """Examine one class over all of its cases in the book."""
        kind = self._opening.kinds.get(name, "missing")
        if kind == "missing":
            text = f"importing the original does not define `{name}`{self._ended()}"
            return _not_run(name, text, "not-importable", None)
        if kind == "class":
            # A base may be a placeholder: then it may be one, and may not go unmentioned.
            return self._no_module(name)
        if self._sides.port_opening.kinds.get(name, "missing") == "missing":
            return ClassResult(
                name=name,
                status="different",
                detail=f"the port does not define `{name}`",
                error_code="missing-in-port",
            )
        cases = book.cases.get(name, ())
        if not cases:
            reasons = book.reasons
            text = reasons.get(name) or reasons.get("") or "no constructor arguments were found"
            return _not_run(name, text + self._ended(), "no-inputs-found", None)
        return self._try_cases(name, cases[:MAX_TRIALS])

    def _no_module(self, name: str) -> ClassResult:
        text, without = "it is no torch module", self._opening.words
        if without:
            return _not_run(name, f"{text} here{without}", "no-inputs-found", None)
        # Whoever calls its forward would look for it in vain.
        return ClassResult(name=name, status="different", detail=text, error_code="not-a-module")

    def _ended(self) -> str:
        failure = self._opening.failure
        return "" if failure is None else f"; importing the original ends with {failure}"

    def _try_cases(self, name: str, cases: tuple[CaseRef, ...]) -> ClassResult:
        ledger = Ledger()
        unusable: UnusableAnswerError | None = None
        origins: dict[str, None] = {}
        started = time.monotonic()
        deadline = started + self._limit_s
        for case in cases:
            asked_for = case.origin.startswith("--example")
            enough = ledger.num_cases > 0 and time.monotonic() - started > ENOUGH_S
            if enough and not asked_for:
                break
            original, port = self._sides.original, self._sides.port
            trial = Trial(name, original, port, case, ledger, self._response)
            try:
                with self._sides.clock.until(deadline):
                    trial.run()
            except FailedError as problem:
                # A class that answers otherwise than modules do (`parameters()` without its argument): what
                # was compared before it proves nothing.
                text = f"it cannot be compared: {problem.failure}"
                return _not_run(name, text, "not-comparable", problem.failure.line)
            except UnusableAnswerError as problem:
                unusable = unusable or problem
                continue
            except OutOfTimeError:
                if not ledger.differs and not ledger.has_seven:
                    return self._out_of_time(name, trial, case)
                ledger.cut = f"the {self._limit_s:.0f} s were over before all calls were compared"
            origins.setdefault(case.origin)
            if ledger.differs:
                self._locate(ledger, case)
            if ledger.differs or ledger.cut:
                break
        if unusable is not None and ledger.num_cases == 0:
            return _not_run(name, unusable.text, unusable.code, unusable.line)
        origin = ("; ".join(origins) or cases[0].origin) + self._opening.words
        return self._drawn(ledger.result(name, origin), cases[0])

    def _drawn(self, result: ClassResult, case: CaseRef) -> ClassResult:
        if not self._draws or result.status not in {"equal", "close"}:
            return result
        try:
            self._sides.port.take("case", case.number, self._sides.original)
            return replace(result, drawing=self._sides.port.draw(case))
        except (FailedError, UnusableAnswerError, OutOfTimeError):
            return result

    def _locate(self, ledger: Ledger, case: CaseRef) -> None:
        if ledger.crash:
            return
        try:
            with self._sides.clock.until(time.monotonic() + self._limit_s / 2):
                for mode in ("eval", "train"):
                    left = self._sides.original.trace(case, mode)
                    right = self._sides.port.trace(case, mode)
                    if left is None or right is None:
                        return
                    found = first_divergence(left, right, mode)
                    if found is not None:
                        ledger.divergence = found.text
                        ledger.line = ledger.line or found.line
                        return
        except (FailedError, OutOfTimeError):
            return

    def _out_of_time(self, name: str, trial: Trial, case: CaseRef) -> ClassResult:
        first, second = trial.seconds["original"], trial.seconds["port"]
        if trial.running == "port" and second > HANGING_FACTOR * max(first, 0.5):
            return ClassResult(
                name=name,
                status="different",
                detail=f"the port runs for {second:.0f} s, the original took {first:.1f} s",
                example=case.origin,
                error_code="port-hangs",
            )
        text = f"not finished within {self._limit_s:.0f} s"
        return _not_run(name, text, TIME_LIMIT, None)


def _not_run(name: str, detail: str, code: str, line: int | None) -> ClassResult:
    return ClassResult(name=name, status="not-run", detail=detail, error_code=code, line=line)
