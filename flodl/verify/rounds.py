"""Compares a ported file with its original, and shares the time out among its classes.

Every class is looked at within its share of the time. Inputs that were not found in time are
looked for again in what is left, and what was too slow for its share comes after all others: one
heavy class does not take the time of the rest of its file.
"""

from __future__ import annotations

import time
from typing import final

from flodl.verify.attempt import Failure
from flodl.verify.examination import TIME_LIMIT, Examination, Sides
from flodl.verify.protocol import ClassResult, Request, Response
from flodl.verify.remote import Channel, Clock, FailedError, Found, RemoteSide

SEARCH_SHARE = 0.3
# Of the time that is left after the first look.
AGAIN_SHARE = 0.5
LEAST_AGAIN_S = 3.0
LEAST_LOOK_S = 1.0
# A class that was too slow is tried again only with so much more time.
MORE_TIME = 1.5


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
        if not {"model class", "model"} & set(opening.kinds.values()):
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

    `limit_s` are those that were not enough before. What is too little for all may be enough for one.
    """
    share = left_s / waiting
    more = share if share > MORE_TIME * limit_s else left_s
    return more if more > MORE_TIME * limit_s else None


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
        self._slow: dict[str, tuple[Found, float, ClassResult]] = {}
        self.draws_differ = False

    def run(self, book: Found) -> None:
        """Look at every class; each is answered once."""
        later = book.unfinished
        self._look([name for name in self._request.classes if name not in later], book)
        self._look(list(later), self._searched_again(book, later))
        for number, (name, (known, limit, result)) in enumerate(self._slow.items()):
            # Nobody else waits for this time: the limit of a class is for the others' sake.
            more = last_limit(self._left(), len(self._slow) - number, limit)
            self._response.add(result if more is None else self._examined(name, known, more))

    def _look(self, names: list[str], book: Found) -> None:
        for number, name in enumerate(names):
            others = len(names) - number - 1 + bool(self._slow or book.unfinished)
            share = max(self._left() / (others + 1), LEAST_LOOK_S)
            limit = min(self._request.class_limit_s, share)
            result = self._examined(name, book, limit)
            if result.error_code == TIME_LIMIT:
                self._slow[name] = book, limit, result
            else:
                self._response.add(result)

    def _searched_again(self, book: Found, names: tuple[str, ...]) -> Found:
        """Look once more for inputs of the classes for which there was no time."""
        budget = AGAIN_SHARE * self._left()
        if not names or budget < LEAST_AGAIN_S:
            return book
        self._response.start("", "original")
        return self._sides.original.search_again(names, budget)

    def _examined(self, name: str, book: Found, limit_s: float) -> ClassResult:
        examination = Examination(self._sides, self._request, self._response, limit_s)
        result = examination.run(name, book)
        return _imports_draw(result) if self.draws_differ and result.status == "equal" else result

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
        return Found(cases={}, reasons=reasons, trouble=None, unfinished=())
    if book.trouble is not None:
        response.fail(book.trouble, source_runs=True)
    return book


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
