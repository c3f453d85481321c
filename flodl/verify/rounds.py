"""Compares a ported file with its original, and shares the time out among its classes.

Every class is looked at within its share of the time. Inputs that were not found in time are
looked for again in what is left, and what was too slow for its share comes after all others: one
heavy class does not take the time of the rest of its file.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from typing import final

import torch
from torch import nn

from flodl.verify.attempt import Failure, OutOfTimeError, time_limit
from flodl.verify.casebook import LAST_ROUND, Casebook
from flodl.verify.containment import contained
from flodl.verify.eased_import import load_eased, open_eased
from flodl.verify.examination import TIME_LIMIT, Examination
from flodl.verify.literals import ExampleSyntaxError
from flodl.verify.protocol import ClassResult, Request, Response
from flodl.verify.seeds import random_state
from flodl.verify.sides import Side
from flodl.verify.standins.install import STANDINS

SEARCH_SHARE = 0.3
# Of the time that is left after the first look.
AGAIN_SHARE = 0.5
LEAST_AGAIN_S = 3.0
LEAST_LOOK_S = 1.0
# A class that was too slow is tried again only with so much more time.
MORE_TIME = 1.5


def examine(request: Request, response: Response) -> None:
    """Compare all classes of the request; each result is answered as soon as it is known."""
    deadline = time.monotonic() + request.left_s()
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
        refused = original.failure or original.refused
        if refused is not None:
            response.fail(str(refused), source_runs=False)
            if not _has_models(original, request.classes):
                return
        response.start("", "port")
        port.load()
        if original.failure is None and port.failure is not None:
            _report_broken_import(request, response, port.failure)
            return
        complete = all(name in port.namespace() for name in request.classes)
        draws_differ = original.failure is None and complete and random_state() != after_original
        if draws_differ:
            # A package that draws when it is imported for the first time drew for the original alone.
            after_port = random_state()
            original.forget()
            load_eased(original)
            draws_differ = original.failure is not None or random_state() != after_port
        with _imports_uncollected():
            book = _find_cases(request, response, original)
            rounds = _Rounds(original, port, request, response, deadline)
            rounds.draws_differ = draws_differ
            rounds.run(book)


@contextlib.contextmanager
def _imports_uncollected() -> Iterator[None]:
    """Keep the objects of imported packages out of every search for garbage: there may be a million."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
        self, original: Side, port: Side, request: Request, response: Response, deadline: float
    ) -> None:
        self._sides = original, port
        self._request = request
        self._response = response
        self._deadline = deadline
        self._slow: dict[str, tuple[Casebook, float, ClassResult]] = {}
        self.draws_differ = False

    def run(self, book: Casebook) -> None:
        """Look at every class; each is answered once."""
        later = book.unfinished
        self._look([name for name in self._request.classes if name not in later], book)
        self._look(list(later), self._searched_again(book, later))
        for number, (name, (known, limit, result)) in enumerate(self._slow.items()):
            # Nobody else waits for this time: the limit of a class is for the others' sake.
            more = last_limit(self._left(), len(self._slow) - number, limit)
            self._response.add(result if more is None else self._examined(name, known, more))

    def _look(self, names: list[str], book: Casebook) -> None:
        for number, name in enumerate(names):
            others = len(names) - number - 1 + bool(self._slow or book.unfinished)
            share = max(self._left() / (others + 1), LEAST_LOOK_S)
            limit = min(self._request.class_limit_s, share)
            result = self._examined(name, book, limit)
            if result.error_code == TIME_LIMIT:
                self._slow[name] = book, limit, result
            else:
                self._response.add(result)

    def _searched_again(self, book: Casebook, names: tuple[str, ...]) -> Casebook:
        """Look once more for inputs of the classes for which there was no time."""
        budget = AGAIN_SHARE * self._left()
        if not names or budget < LEAST_AGAIN_S:
            return book
        self._response.start("", "original")
        again = book.again(names, budget)
        try:
            with time_limit(budget):
                again.add_guesses()
                again.add_users()
                again.add_guesses(LAST_ROUND)
        except OutOfTimeError:
            again.note_end()
        return again

    def _examined(self, name: str, book: Casebook, limit_s: float) -> ClassResult:
        original, port = self._sides
        result = Examination(original, port, self._request, self._response, limit_s).run(
            name, book
        )
        return _imports_draw(result) if self.draws_differ and result.status == "equal" else result

    def _left(self) -> float:
        return self._deadline - time.monotonic()


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
        book.note_end()
    except ExampleSyntaxError as problem:
        book.trouble = str(problem)
    if book.trouble is not None:
        response.fail(book.trouble, source_runs=True)
    return book


def _has_models(side: Side, names: tuple[str, ...]) -> bool:
    """Say whether there is anything to compare: a base may have been a placeholder."""
    values = [side.namespace().get(name) for name in names]
    return any(
        isinstance(value, nn.Module) or (isinstance(value, type) and issubclass(value, nn.Module))
        for value in values
    )


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
