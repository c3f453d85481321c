"""Comparison of one class of a ported file with its original, case by case."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import final

from flodl_verify.compare.case_comparison import USUAL_FACTOR, CaseComparison, TooSlowError
from flodl_verify.compare.remote import (
    CaseRef,
    Clock,
    FailedError,
    Found,
    Opening,
    RemoteSide,
    UnusableAnswerError,
)
from flodl_verify.compare.results import ClassResults
from flodl_verify.protocol import (
    NO_FORWARD,
    NO_MODULE,
    TIME_LIMIT,
    ClassEvidence,
    NotRunReason,
    Request,
    Response,
)
from flodl_verify.sandbox.attempt import OutOfTimeError
from flodl_verify.sides.divergence import first_divergence

MAX_TRIALS = 4
# After this long, a class that was compared on one case is not compared on further ones, except
# on those that the user gave.
ENOUGH_S = 5.0
# A port that takes this much longer than the original, when the time is over, hangs.
HANGING_FACTOR = 20.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A class that did not end in its time: the seconds that it used up, and those that it seems to need."""

    result: ClassEvidence
    had_s: float
    needs_s: float


@final
@dataclass(slots=True, eq=False)
class _State:
    """The findings on one class after some of its cases."""

    name: str
    cases: tuple[CaseRef, ...]
    class_results: ClassResults = field(default_factory=ClassResults)
    unusable: UnusableAnswerError | None = None
    origins: dict[str, None] = field(default_factory=dict)
    tried: int = 0
    spent_s: float = 0.0

    @property
    def left(self) -> tuple[CaseRef, ...]:
        """The cases that were not tried yet."""
        return self.cases[self.tried : MAX_TRIALS]

    @property
    def is_settled(self) -> bool:
        """Whether there is something to say about the class, so that further cases may wait."""
        return self.class_results.num_cases > 0


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
class ClassVerifier:
    """The examination of the classes of a file, each on one case first and on further ones later."""

    def __init__(self, sides: Sides, request: Request, response: Response) -> None:
        self._sides = sides
        self._opening = sides.original_opening
        self._draws = request.drawings
        self._response = response
        self._states: dict[str, _State] = {}

    def run(
        self, name: str, book: Found, limit_s: float, *, last: bool = False
    ) -> ClassEvidence | Late:
        """Examine one class on its first case that can be used, and on all examples that were given.

        A class that needs more than `limit_s` is late; it is not started if the first calls tell that,
        unless this is the `last` time.
        """
        kind = self._opening.kinds.get(name, "missing")
        if kind == "missing":
            text = f"importing the original does not define `{name}`{self._ended()}"
            return not_run(name, text, "not-importable", "does-not-run")
        if kind == "class":
            # A base may be a placeholder: then it may be one, and may not go unmentioned.
            return self._no_module(name)
        if self._sides.port_opening.kinds.get(name, "missing") == "missing":
            return ClassEvidence(
                name=name,
                status="different",
                detail=f"the port does not define `{name}`",
                error_code="missing-in-port",
            )
        if kind == "model class without forward":
            return not_run(name, "it has no forward of its own", NO_FORWARD, None)
        cases = book.cases.get(name, ())
        if not cases:
            return self._without_cases(name, book)
        state = self._states[name] = _State(name=name, cases=cases)
        return self._try_cases(name, state, limit_s, last=last)

    def further(self, name: str, limit_s: float) -> ClassEvidence | None:
        """Examine a class that was compared on one case on one more; None where there is nothing to add."""
        state = self._states.get(name)
        if state is None or not state.left or not state.is_settled or state.spent_s > ENOUGH_S:
            return None
        if state.class_results.differs or state.class_results.cut or state.spent_s > limit_s:
            return None
        found = self._try_cases(name, state, limit_s, last=True, most=1)
        return found if isinstance(found, ClassEvidence) else None

    def _without_cases(self, name: str, book: Found) -> ClassEvidence:
        found = book.reasons.get(name) or book.reasons.get("")
        text = (found or "no constructor arguments were found") + self._ended()
        if book.is_late(name):
            return not_run(name, text, TIME_LIMIT, "time")
        return not_run(name, text, "no-inputs-found", "no-inputs")

    def _no_module(self, name: str) -> ClassEvidence:
        text, without = "it is no torch module", self._opening.words
        if without:
            return not_run(name, f"{text} here{without}", "no-inputs-found", "does-not-run")
        # Whoever calls its forward would look for it in vain.
        return ClassEvidence(name=name, status="different", detail=text, error_code=NO_MODULE)

    def _ended(self) -> str:
        failure = self._opening.failure
        return "" if failure is None else f"; importing the original ends with {failure}"

    def _try_cases(
        self, name: str, state: _State, limit_s: float, *, last: bool, most: int = MAX_TRIALS
    ) -> ClassEvidence | Late:
        started = time.monotonic()
        for case in state.left[:most]:
            if state.is_settled and most > 1 and not case.origin.startswith("--example"):
                break
            state.tried += 1
            left = started + limit_s - time.monotonic()
            ended = self._try_case(state, case, left, math.inf if last else left)
            if ended is not None:
                return ended
            if state.class_results.differs or state.class_results.cut:
                break
        state.spent_s += time.monotonic() - started
        return self._result(name, state)

    def _try_case(
        self, state: _State, case: CaseRef, limit_s: float, allowed_s: float
    ) -> ClassEvidence | Late | None:
        """Compare one case; return a result only where there is nothing more to find out."""
        class_results, name = state.class_results, state.name
        further = state.is_settled
        original, port = self._sides.original, self._sides.port
        trial = CaseComparison(
            name, original, port, case, class_results, self._response, allowed_s
        )
        try:
            with self._sides.clock.until(time.monotonic() + limit_s):
                trial.run()
        except TooSlowError as slow:
            text = f"it needs about {slow.needs_s:.0f} s, and {limit_s:.0f} s were left for it"
            return _late(name, text, 0.0, slow.needs_s)
        except OutOfTimeError:
            if not class_results.differs and not class_results.has_seven:
                return self._out_of_time(name, trial, case, limit_s)
            if not further:  # a further case takes nothing from what the first one showed
                class_results.cut = f"the {limit_s:.0f} s were over before all calls were compared"
        except FailedError as problem:
            # A class that answers otherwise than modules do (`parameters()` without its argument): an earlier
            # comparison proves nothing, and the other classes of the file continue.
            text = f"it cannot be compared: {problem.failure}"
            line = problem.failure.line
            return not_run(name, text, "not-comparable", "not-compared", line)
        except UnusableAnswerError as problem:
            state.unusable = state.unusable or problem
            return None
        state.origins.setdefault(case.origin)
        if class_results.differs:
            self._locate(class_results, case, limit_s)
        return None

    def _result(self, name: str, state: _State) -> ClassEvidence:
        unusable = state.unusable
        if unusable is not None and not state.is_settled:
            reason = _REASONS.get(unusable.code, "not-compared")
            return not_run(name, unusable.text, unusable.code, reason, unusable.line)
        origin = ("; ".join(state.origins) or state.cases[0].origin) + self._opening.words
        result = state.class_results.result(name, origin)
        if result.status == "not-run":
            result = replace(result, reason="not-compared")
        return self._drawn(result, state.cases[0])

    def _drawn(self, result: ClassEvidence, case: CaseRef) -> ClassEvidence:
        if not self._draws or result.status not in {"equal", "close"}:
            return result
        try:
            self._sides.port.take("case", case.number, self._sides.original)
            return replace(result, drawing=self._sides.port.draw(case))
        except (FailedError, UnusableAnswerError, OutOfTimeError):
            return result

    def _locate(self, class_results: ClassResults, case: CaseRef, limit_s: float) -> None:
        if class_results.crash:
            return
        try:
            with self._sides.clock.until(time.monotonic() + limit_s / 2):
                for mode in ("eval", "train"):
                    left = self._sides.original.trace(case, mode)
                    right = self._sides.port.trace(case, mode)
                    if left is None or right is None:
                        return
                    found = first_divergence(left, right, mode)
                    if found is not None:
                        class_results.divergence = found.text
                        class_results.line = class_results.line or found.line
                        return
        except (FailedError, OutOfTimeError):
            return

    def _out_of_time(
        self, name: str, trial: CaseComparison, case: CaseRef, limit_s: float
    ) -> ClassEvidence | Late:
        first, second = trial.seconds["original"], trial.seconds["port"]
        if trial.running == "port" and second > HANGING_FACTOR * max(first, 0.5):
            return ClassEvidence(
                name=name,
                status="different",
                detail=f"the port runs for {second:.0f} s, the original took {first:.1f} s",
                example=case.origin,
                error_code="port-hangs",
            )
        # A case that did not even end its probe may need any time; the usual multiple is a first guess.
        text = f"not finished within {limit_s:.0f} s"
        return _late(name, text, limit_s, trial.needs_s or USUAL_FACTOR * limit_s)


# Of an original that runs but gives nothing to compare, other inputs may be what is missing.
_REASONS: dict[str, NotRunReason] = {
    "original-raises": "does-not-run",
    "no-tensor-output": "no-inputs",
    "nan-output": "no-inputs",
    "not-deterministic": "not-compared",
}


def _late(name: str, text: str, had_s: float, needs_s: float) -> Late:
    return Late(result=not_run(name, text, TIME_LIMIT, "time"), had_s=had_s, needs_s=needs_s)


def not_run(
    name: str, detail: str, code: str, reason: NotRunReason | None, line: int | None = None
) -> ClassEvidence:
    """Return the result of a class that was not compared."""
    return ClassEvidence(
        name=name, status="not-run", detail=detail, error_code=code, reason=reason, line=line
    )
