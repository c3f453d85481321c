"""Comparison of a ported file with its original, with the time shared among its classes.

The largest and the most used classes come first. Each gets at most a third of the remaining time, or its
even share if that is more. One that would take longer waits, so that one heavy class does not take the time
of the rest of its file. Then inputs are looked for again, what waits gets what is left, and at last further
cases are compared.

Example:
    Of `Net`, `Block` and `Norm`, 30 s are left. `Net` may take 10 s, but its first calls tell that it
    needs 25: it waits. `Block` and `Norm` take 2 s each. `Net` gets the 24 s that are left, which are not
    enough: it is `not-run` because of the time, and 35 s are reported as needed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import final

from flodl_verify.compare.class_verifier import (
    ENOUGH_S,
    ClassVerifier,
    Late,
    Sides,
    not_run,
)
from flodl_verify.compare.remote import MODEL_KINDS, Channel, Clock, FailedError, Found, RemoteSide
from flodl_verify.protocol import TIME_LIMIT, ClassEvidence, Request, Response
from flodl_verify.sandbox.attempt import Failure

SEARCH_SHARE = 0.3
# Of the time that is left after the first look.
AGAIN_SHARE = 0.5
LEAST_AGAIN_S = 3.0
LEAST_LOOK_S = 1.0
# Of the time that is left, what one class may take at its first look.
LOOK_SHARE = 1 / 3
# A class that was too slow is tried again only with so much more time.
MORE_TIME = 1.5
# Or with so much of what it seems to need: some need less than their first calls tell.
LEAST_OF_NEEDED = 0.6
# Further cases are compared as long as so much of the time is not over.
FURTHER_SHARE = 0.5


def examine(
    request: Request,
    response: Response,
    original_channel: Channel,
    port_channel: Channel,
    recording: bytes | None = None,
) -> None:
    """Compare all classes of the request; each result is answered as soon as it is known.

    Raises:
        SideGoneError: the process of a side ended.
    """
    deadline = time.monotonic() + request.left_s()
    clock = Clock()
    original = RemoteSide("original", original_channel, clock)
    port = RemoteSide("port", port_channel, clock)
    response.start("", "original")
    opening = original.open()
    if opening.refused is not None:
        response.fail(str(opening.refused), source_runs=False)
        # A base may have been a placeholder.
        if not MODEL_KINDS & set(opening.kinds.values()):
            return
    response.start("", "port")
    port_opening = port.open(opening.settings)
    if opening.failure is None and port_opening.failure is not None:
        _report_broken_import(request, response, port_opening.failure)
        return
    complete = "missing" not in port_opening.kinds.values()
    sides = Sides(
        original=original,
        port=port,
        original_opening=opening,
        port_opening=port_opening,
        clock=clock,
    )
    draws_differ = False
    if opening.failure is None and complete and opening.draws != port_opening.draws:
        # A package that draws when it is imported may have been imported before, when something else
        # stopped the import of the original.
        first, second = original.open_again(), port.open_again()
        draws_differ = first.failure is not None or first.draws != second.draws
    book = _find_cases(request, response, original, recording)
    rounds = _Rounds(sides, request, response, deadline)
    rounds.draws_differ = draws_differ
    rounds.run(book)


def last_limit(left_s: float, waiting: int, limit_s: float) -> float | None:
    """Return the seconds of the next of some classes that were too slow; None where they change nothing.

    `limit_s` are those that were not enough before. Too little time for all may be enough for one.
    """
    share = left_s / waiting
    more = share if share > MORE_TIME * limit_s else left_s
    return more if more > MORE_TIME * limit_s else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A class that was too slow, or that was not started because the others of its file were."""

    book: Found
    had_s: float
    needs_s: float
    result: ClassEvidence | None


@final
class _Rounds:
    """The looks at the classes of one file."""

    def __init__(
        self, sides: Sides, request: Request, response: Response, deadline: float
    ) -> None:
        self._sides = sides
        self._request = request
        self._response = response
        self._deadline = deadline
        self._examination = ClassVerifier(sides, request, response)
        self._waiting: dict[str, _Waiting] = {}
        self._seconds: list[float] = []
        self._late: list[str] = []
        self.draws_differ = False

    def run(self, book: Found) -> None:
        """Look at every class; each is answered, and answered again where more is known."""
        later = book.unfinished
        order = self._most_important_first()
        self._look([name for name in order if name not in later], book)
        self._look([name for name in order if name in later], self._searched_again(book, later))
        self._look_at_what_waits(order)
        if self._late:
            self._response.need(self._needed_s())
        self._look_further(order)

    def _look_further(self, order: list[str]) -> None:
        """Compare each class on one more case, again and again as long as there are cases and time."""
        pending = list(order)
        while pending:
            compared = []
            for name in pending:
                if self._left() < (1 - FURTHER_SHARE) * self._request.limit_s:
                    return
                more = self._examination.further(name, min(ENOUGH_S, self._left()))
                if more is not None:
                    self._add(more)
                    compared.append(name)
            pending = compared

    def _most_important_first(self) -> list[str]:
        known = self._sides.original_opening.importance
        return sorted(self._request.classes, key=lambda name: -known.get(name, 0))

    def _look(self, names: list[str], book: Found) -> None:
        for number, name in enumerate(names):
            others = len(names) - number - 1 + bool(self._waiting or book.unfinished)
            share = max(self._left() / (others + 1), LEAST_LOOK_S)
            limit = min(self._request.class_limit_s, max(share, LOOK_SHARE * self._left()))
            if book.cases.get(name) and (self._usual_s() > limit or self._left() <= 0):
                # The first calls of each would take what is enough for a few.
                needs = max(self._usual_s(), LEAST_LOOK_S)
                self._waiting[name] = _Waiting(book=book, had_s=0.0, needs_s=needs, result=None)
                continue
            self._examine(name, book, limit, last=False)

    def _look_at_what_waits(self, order: list[str]) -> None:
        """Give the remaining time to the classes that were too slow: no other class waits for it."""
        waiting = [name for name in order if name in self._waiting]
        for number, name in enumerate(waiting):
            known = self._waiting.pop(name)
            needed = max(known.had_s, LEAST_OF_NEEDED * known.needs_s / MORE_TIME)
            more = last_limit(self._left(), len(waiting) - number, needed)
            if more is not None:
                self._examine(name, known.book, more, last=True)
            elif known.result is None and self._left() >= LEAST_LOOK_S:
                # The times of others are no more than a guess; its first calls tell.
                self._examine(name, known.book, self._left(), last=False)
            else:
                self._waiting[name] = known
            late = self._waiting.get(name)
            if late is not None:
                self._add(late.result or self._not_reached(name))

    def _not_reached(self, name: str) -> ClassEvidence:
        text = f"not reached within {self._request.limit_s:.0f} s"
        return not_run(name, text, TIME_LIMIT, "time")

    def _examine(self, name: str, book: Found, limit_s: float, *, last: bool) -> None:
        started = time.monotonic()
        found = self._examination.run(name, book, limit_s, last=last)
        if isinstance(found, Late):
            self._waiting[name] = _Waiting(
                book=book, had_s=found.had_s, needs_s=found.needs_s, result=found.result
            )
            return
        if book.cases.get(name):
            self._seconds.append(time.monotonic() - started)
        self._add(found)

    def _add(self, result: ClassEvidence) -> None:
        if result.reason == "time":
            self._late.append(result.name)
        if self.draws_differ and result.status == "equal":
            result = _imports_draw(result)
        self._response.add(result)

    def _searched_again(self, book: Found, names: tuple[str, ...]) -> Found:
        """Look once more for inputs of the classes for which there was no time."""
        budget = AGAIN_SHARE * self._left()
        if not names or budget < LEAST_AGAIN_S:
            return book
        self._response.start("", "original")
        return self._sides.original.search_again(names, budget)

    def _usual_s(self) -> float:
        """Return the average time of a class of this file so far; the largest came first."""
        return sum(self._seconds) / len(self._seconds) if self._seconds else 0.0

    def _needed_s(self) -> float:
        """Return the seconds that would have been enough for all classes, as far as was measured."""
        ended = self._request.limit_s - self._left()
        unsought = [name for name in self._late if name not in self._waiting]
        usual = max(self._usual_s(), LEAST_LOOK_S)
        compared = sum(
            max(item.needs_s, MORE_TIME * item.had_s) for item in self._waiting.values()
        )
        needed = ended + compared + len(unsought) * usual
        # Inputs get a fixed part of the time: twice as many seconds for them are twice as many in all.
        return max(needed, 2 * self._request.limit_s) if unsought else needed

    def _left(self) -> float:
        return self._deadline - time.monotonic()


def _find_cases(
    request: Request, response: Response, original: RemoteSide, recording: bytes | None
) -> Found:
    response.start("", "original")
    try:
        book = original.search(request.limit_s * SEARCH_SHARE, recording)
    except FailedError as problem:
        reasons = {"": f"no inputs can be looked for: {problem.failure}"}
        return Found(cases={}, reasons=reasons, trouble=None, late=())
    if book.trouble is not None:
        response.fail(book.trouble, source_runs=True)
    return book


def _report_broken_import(request: Request, response: Response, failure: Failure) -> None:
    for name in request.classes:
        response.add(
            ClassEvidence(
                name=name,
                status="different",
                detail=f"importing the port raises {failure.text}",
                error_code="port-import-fails",
                line=failure.line,
            )
        )


def _imports_draw(result: ClassEvidence) -> ClassEvidence:
    return ClassEvidence(
        name=result.name,
        status="different",
        detail="importing the port draws other random numbers than importing the original",
        checks=result.checks,
        example=result.example,
        error_code="import-draws",
    )
