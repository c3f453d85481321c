"""Time that is left goes to classes that seem to need more, and to further cases."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from flodl_verify.compare import rounds
from flodl_verify.compare.class_verifier import Late
from flodl_verify.compare.remote import CaseRef, Found
from flodl_verify.protocol import ClassEvidence
from tests.porter.verify.examining import Answers

pytestmark = pytest.mark.torch


def equal(name: str, detail: str) -> ClassEvidence:
    return ClassEvidence(name=name, status="equal", detail=detail)


def late(name: str, needs_s: float) -> Late:
    result = ClassEvidence(name=name, status="not-run", detail="late", reason="time")
    return Late(result=result, had_s=0.0, needs_s=needs_s)


class FakeVerifier:
    """One that knows what becomes of each class; `further` gives one result for each further case."""

    needs_s = 0.0
    further_cases: ClassVar[dict[str, list[str]]] = {}

    def __init__(self, *_: object) -> None:
        self._left = {name: list(details) for name, details in self.further_cases.items()}

    def run(self, name: str, _book: Found, _limit_s: float, *, last: bool) -> Any:
        return late(name, self.needs_s) if self.needs_s and not last else equal(name, "first case")

    def further(self, name: str, _limit_s: float) -> ClassEvidence | None:
        left = self._left.get(name)
        return equal(name, left.pop(0)) if left else None


def examined(monkeypatch: pytest.MonkeyPatch, *names: str) -> Answers:
    monkeypatch.setattr(rounds, "ClassVerifier", FakeVerifier)
    request: Any = SimpleNamespace(classes=names, limit_s=100.0, class_limit_s=50.0)
    sides: Any = SimpleNamespace(original_opening=SimpleNamespace(importance={}))
    cases = {name: (CaseRef(number=1, origin="guessed"),) for name in names}
    book = Found(cases=cases, reasons={}, trouble=None, late=())
    answers = Answers()
    rounds._Rounds(sides, request, answers, time.monotonic() + 100.0).run(book)
    return answers


@pytest.mark.parametrize(("needs_s", "status"), [(130.0, "equal"), (300.0, "not-run")])
def test_rounds_class_that_seems_to_need_a_little_more_is_tried(
    monkeypatch: pytest.MonkeyPatch, needs_s: float, status: str
) -> None:
    monkeypatch.setattr(FakeVerifier, "needs_s", needs_s)
    assert examined(monkeypatch, "Net").results["Net"]["status"] == status


def test_rounds_every_further_case_is_compared_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = {"Net": ["second", "third"], "Other": ["second"]}
    monkeypatch.setattr(FakeVerifier, "further_cases", cases)
    found = examined(monkeypatch, "Net", "Other").results
    assert [found[name]["detail"] for name in ("Net", "Other")] == ["third", "second"]
