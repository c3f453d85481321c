"""Compares a ported file with its original, class by class, and answers as it goes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import final

import torch

from flodl.verify.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl.verify.casebook import LAST_ROUND, Casebook
from flodl.verify.containment import contained
from flodl.verify.divergence import first_divergence
from flodl.verify.drawing import draw
from flodl.verify.eased_import import eased_words, open_eased
from flodl.verify.ledger import Ledger
from flodl.verify.literals import ExampleSyntaxError
from flodl.verify.probe import UnusableCaseError
from flodl.verify.protocol import ClassResult, Request, Response
from flodl.verify.recorder import Case
from flodl.verify.seeds import random_state
from flodl.verify.sides import Side
from flodl.verify.standins.install import STANDINS
from flodl.verify.trial import Trial

SEARCH_SHARE = 0.3
MAX_TRIALS = 4
# After this long, a class that was compared on one case is not compared on further ones, except
# on those that the user gave.
ENOUGH_S = 5.0
# A port that takes this much longer than the original, when the time is over, hangs.
HANGING_FACTOR = 20.0


def examine(request: Request, response: Response) -> None:
    """Compare all classes of the request; each result is answered as soon as it is known."""
    STANDINS.install(request.original)
    folders = (request.original.parent, request.ported.parent)
    # TorchScript would compile a function anew at its third call or so, with other last bits in its
    # gradients, and the original is called more often than the port.
    unchanging = torch.jit.optimized_execution(False)  # type: ignore[attr-defined]  # public, undeclared
    with contained(request.workdir, folders), unchanging:
        response.start("", "original")
        original, port = open_eased(
            request.original, request.ported, request.search_path, request.ported_search_path
        )
        after_original = random_state()
        if original.failure is not None:
            response.fail(str(original.failure), source_runs=False)
            if not _has_any(original, request.classes):
                return
        response.start("", "port")
        port.load()
        if original.failure is None and port.failure is not None:
            _report_broken_import(request, response, port.failure)
            return
        complete = all(name in port.namespace() for name in request.classes)
        draws_differ = original.failure is None and complete and random_state() != after_original
        book = _find_cases(request, response, original)
        for name in request.classes:
            result = _Examination(original, port, book, request, response).run(name)
            if draws_differ and result.status == "equal":
                result = _imports_draw(result)
            response.add(result)


def _find_cases(request: Request, response: Response, original: Side) -> Casebook:
    response.start("", "original")
    budget = request.limit_s * SEARCH_SHARE
    book = Casebook(original, request.classes, budget)
    try:
        with time_limit(budget):
            book.add_examples(request.examples)
            book.add_recording(request.recording)
            book.add_values()
            book.add_expressions()
            book.add_guesses()
            book.add_users()
            book.add_guesses(LAST_ROUND)
    except OutOfTimeError:
        book.reasons.setdefault("", "the time to find inputs was over")
    except ExampleSyntaxError as problem:
        book.trouble = str(problem)
    if book.trouble is not None:
        response.fail(book.trouble, source_runs=True)
    return book


@final
class _Examination:
    """The examination of one class."""

    def __init__(
        self, original: Side, port: Side, book: Casebook, request: Request, response: Response
    ) -> None:
        self._original = original
        self._port = port
        self._book = book
        self._limit_s = request.class_limit_s
        self._draws = request.drawings
        self._response = response

    def run(self, name: str) -> ClassResult:
        """Examine one class over all of its cases."""
        if name not in self._original.namespace():
            text = f"importing the original does not define `{name}`{self._ended()}"
            return _not_run(name, text, "not-importable", None)
        if name not in self._port.namespace():
            return ClassResult(
                name=name,
                status="different",
                detail=f"the port does not define `{name}`",
                error_code="missing-in-port",
            )
        cases = self._book.cases.get(name, [])
        if not cases:
            reasons = self._book.reasons
            text = reasons.get(name) or reasons.get("") or "no constructor arguments were found"
            return _not_run(name, text + self._ended(), "no-inputs-found", None)
        return self._try_cases(name, cases[:MAX_TRIALS])

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
        return _not_run(name, text, "time-limit", None)


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


def _has_any(side: Side, names: tuple[str, ...]) -> bool:
    return any(name in side.namespace() for name in names)


def _report_broken_import(request: Request, response: Response, failure: Failure) -> None:
    for name in request.classes:
        response.add(
            ClassResult(
                name=name,
                status="different",
                detail=f"importing the port raises {failure.text}",
                error_code="port-import-fails",
                line=failure.line,
            )
        )


def _imports_draw(result: ClassResult) -> ClassResult:
    return ClassResult(
        name=result.name,
        status="different",
        detail="importing the port draws other random numbers than importing the original",
        checks=result.checks,
        example=result.example,
        error_code="import-draws",
    )


def _not_run(name: str, detail: str, code: str, line: int | None) -> ClassResult:
    return ClassResult(name=name, status="not-run", detail=detail, error_code=code, line=line)
