"""Compares a ported file with its original, and shares the time out among its classes.

The largest and the most used classes come first. Each gets at most a third of the time that is left, or
its even share if that is more, and one that would take longer waits: one heavy class does not take the
time of the rest of its file. Then inputs are looked for again, what waits gets what is left, and at last
further cases are compared.

Example:
    Of `Net`, `Block` and `Norm`, 30 s are left. `Net` may take 10 s, but its first calls tell that it
    needs 25: it waits. `Block` and `Norm` take 2 s each. `Net` gets the 24 s that are left, which are not
    enough: it is `not-run` because of the time, and 35 s are reported as needed.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from flodl.verify.attempt import Failure, OutOfTimeError, time_limit
from flodl.verify.casebook import LAST_ROUND, Casebook
from flodl.verify.containment import contained
from flodl.verify.eased_import import load_eased, open_eased
from flodl.verify.examination import ENOUGH_S, TIME_LIMIT, Examination, Late, not_run
from flodl.verify.importance import standings
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
# Of the time that is left, what one class may take at its first look.
LOOK_SHARE = 1 / 3
# A class that was too slow is tried again only with so much more time.
MORE_TIME = 1.5
# Or with so much of what it seems to need: some need less than their first calls tell.
LEAST_OF_NEEDED = 0.6
# Further cases are compared as long as so much of the time is not over.
FURTHER_SHARE = 0.5


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
@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A class that was too slow, or that was not started because the others of its file were."""

    book: Casebook
    had_s: float
    needs_s: float
    result: ClassResult | None


@final
class _Rounds:
    """The looks at the classes of one file."""

    def __init__(
        self, original: Side, port: Side, request: Request, response: Response, deadline: float
    ) -> None:
        self._original = original
        self._request = request
        self._response = response
        self._deadline = deadline
        self._examination = Examination(original, port, request, response)
        self._waiting: dict[str, _Waiting] = {}
        self._seconds: list[float] = []
        self._late: list[str] = []
        self.draws_differ = False

    def run(self, book: Casebook) -> None:
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
        names = self._request.classes
        with self._original.active():  # texts of classes are found through their modules
            known = standings(self._original.namespace(), names)
        return sorted(names, key=lambda name: -known[name].importance)

    def _look(self, names: list[str], book: Casebook) -> None:
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
        """Give the time that is left to what was too slow: nobody else waits for it."""
        waiting = [name for name in order if name in self._waiting]
        for number, name in enumerate(waiting):
            known = self._waiting.pop(name)
            needed = max(known.had_s, LEAST_OF_NEEDED * known.needs_s / MORE_TIME)
            more = last_limit(self._left(), len(waiting) - number, needed)
            if more is not None:
                self._examine(name, known.book, more, last=True)
            elif known.result is None and self._left() >= LEAST_LOOK_S:
                # What others took is no more than a guess; its own first calls tell.
                self._examine(name, known.book, self._left(), last=False)
            else:
                self._waiting[name] = known
            late = self._waiting.get(name)
            if late is not None:
                self._add(late.result or self._not_reached(name))

    def _not_reached(self, name: str) -> ClassResult:
        text = f"not reached within {self._request.limit_s:.0f} s"
        return not_run(name, text, TIME_LIMIT, "time")

    def _examine(self, name: str, book: Casebook, limit_s: float, *, last: bool) -> None:
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

    def _add(self, result: ClassResult) -> None:
        if result.reason == "time":
            self._late.append(result.name)
        if self.draws_differ and result.status == "equal":
            result = _imports_draw(result)
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

    def _usual_s(self) -> float:
        """Return what a class of this file took so far, on average; the largest came first."""
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
