"""Compares one class of a ported file with its original, case by case."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import final

from torch import nn

from flodl.verify.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl.verify.casebook import Casebook
from flodl.verify.divergence import first_divergence
from flodl.verify.drawing import draw
from flodl.verify.eased_import import eased_words
from flodl.verify.ledger import Ledger
from flodl.verify.probe import UnusableCaseError
from flodl.verify.protocol import ClassResult, Request, Response
from flodl.verify.recorder import Case
from flodl.verify.sides import Side
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
class Examination:
    """The examination of one class."""

    def __init__(
        self, original: Side, port: Side, request: Request, response: Response, limit_s: float
    ) -> None:
        self._original = original
        self._port = port
        self._limit_s = limit_s
        self._draws = request.drawings
        self._response = response

    def run(self, name: str, book: Casebook) -> ClassResult:
        """Examine one class over all of its cases in the book."""
        if name not in self._original.namespace():
            text = f"importing the original does not define `{name}`{self._ended()}"
            return _not_run(name, text, "not-importable", None)
        known = self._original.namespace()[name]
        if isinstance(known, type) and not issubclass(known, nn.Module):
            # A base may be a placeholder: then nobody knows, and the class may not go unmentioned.
            return self._no_module(name)
        if name not in self._port.namespace():
            return ClassResult(
                name=name,
                status="different",
                detail=f"the port does not define `{name}`",
                error_code="missing-in-port",
            )
        cases = book.cases.get(name, [])
        if not cases:
            reasons = book.reasons
            text = reasons.get(name) or reasons.get("") or "no constructor arguments were found"
            return _not_run(name, text + self._ended(), "no-inputs-found", None)
        return self._try_cases(name, cases[:MAX_TRIALS])

    def _no_module(self, name: str) -> ClassResult:
        text, without = "it is no torch module", eased_words(self._original)
        if without:
            return _not_run(name, f"{text} here{without}", "no-inputs-found", None)
        # Whoever calls its forward would look for it in vain.
        return ClassResult(name=name, status="different", detail=text, error_code="not-a-module")

    def _ended(self) -> str:
        failure = self._original.failure
        return "" if failure is None else f"; importing the original ends with {failure}"

    def _try_cases(self, name: str, cases: list[Case]) -> ClassResult:
        ledger = Ledger()
        unusable: UnusableCaseError | None = None
        origins: dict[str, None] = {}
        started = time.monotonic()
        deadline = started + self._limit_s
        for case in cases:
            asked_for = case.origin.startswith("--example")
            enough = ledger.num_cases > 0 and time.monotonic() - started > ENOUGH_S
            if enough and not asked_for:
                break
            trial = Trial(self._original, self._port, case, ledger, self._response)
            try:
                with time_limit(deadline - time.monotonic()):
                    problem = _compared(trial)
                if isinstance(problem, Failure):
                    text = f"it cannot be compared: {problem}"
                    return _not_run(name, text, "not-comparable", problem.line)
                if problem is not None:
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
            return _not_run(name, unusable.reason, unusable.code, unusable.line)
        origin = ("; ".join(origins) or cases[0].origin) + eased_words(self._original)
        return self._drawn(ledger.result(name, origin), cases[0])

    def _drawn(self, result: ClassResult, case: Case) -> ClassResult:
        if not self._draws or result.status not in {"equal", "close"}:
            return result
        return replace(result, drawing=draw(self._port, case))

    def _locate(self, ledger: Ledger, case: Case) -> None:
        if ledger.crash:
            return
        try:
            with time_limit(self._limit_s / 2):
                found = first_divergence(self._original, self._port, case)
        except OutOfTimeError:
            return
        if found is not None:
            ledger.divergence = found.text
            ledger.line = ledger.line or found.line

    def _out_of_time(self, name: str, trial: Trial, case: Case) -> ClassResult:
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


def _compared(trial: Trial) -> UnusableCaseError | Failure | None:
    """Compare one case; return why the original cannot be run on it, if so.

    A failure is a class that answers otherwise than modules do (`parameters()` without its argument): what
    was compared before it proves nothing, and the other classes of the file go on.
    """

    def run() -> UnusableCaseError | None:
        try:
            trial.run()
        except UnusableCaseError as problem:
            return problem
        return None

    return attempt(run)


def _not_run(name: str, detail: str, code: str, line: int | None) -> ClassResult:
    return ClassResult(name=name, status="not-run", detail=detail, error_code=code, line=line)
