"""Results of a search: cases and constructions of the classes that a file knows."""

from __future__ import annotations

from typing import final

from flodl_verify.inputs.recorder import MAX_CASES_PER_CLASS, Case, Recorder
from flodl_verify.inputs.watched_calls import runs_again
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.values.recipes import Construction


@final
class FoundCases:
    """Cases by class name, from the best source first, and how modules were constructed elsewhere."""

    def __init__(self, original: Side) -> None:
        self._original = original
        self.cases: dict[str, list[Case]] = {}
        self.constructions: dict[str, list[Construction]] = {}

    def merge(
        self, cases: dict[str, list[Case]], constructions: dict[str, list[Construction]]
    ) -> None:
        """Add what one run showed."""
        for name, everywhere in cases.items():
            known = self.cases.setdefault(name, [])
            found = [case for case in everywhere if self._is_ours(case.construction)]
            # A class that has cases from a better source needs none from a worse one; examples
            # are all of one rank.
            best = known[0].origin if known else ""
            for case in found:
                if best and best != case.origin and not case.origin.startswith("--example"):
                    break
                fresh = all(
                    (case.construction, case.inputs) != (item.construction, item.inputs)
                    for item in known
                )
                if fresh and len(known) < MAX_CASES_PER_CLASS:
                    known.append(case)
        for name, made in constructions.items():
            ours = [item for item in made if self._is_ours(item)]
            self.constructions.setdefault(name, []).extend(ours)

    def merge_seen(self, recorder: Recorder) -> None:
        """Add what other code was seen to do, as far as it can be done again without that code."""
        before = {name: len(cases) for name, cases in self.cases.items()}
        self.merge(recorder.cases, recorder.constructions)
        for name, cases in self.cases.items():
            for case in cases[before.get(name, 0) :]:
                if not runs_again(self._original, case):
                    cases.remove(case)

    def is_known_as(self, name: str, module: str) -> bool:
        """Return True if the file knows a class of a module by this name."""
        known = self._original.namespace().get(name)
        home = getattr(known, "__module__", self._original.name)
        return module in {home, "__main__"}

    def _is_ours(self, construction: Construction) -> bool:
        """Tell a class that the file knows from one of another file that has the same name."""
        kind, name = construction.kind, construction.qualname
        return kind != "class" or self.is_known_as(name, construction.module)
