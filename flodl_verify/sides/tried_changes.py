"""Search for the changes of the world that a model notices, on the original alone.

A comparison after a change says something only if the original still runs then, and gives another
result.

Worked example.  For a block that multiplies by `self.scale` and reads `self.depth` in a loop over
two layers, the changes are `other _parameters`, `model.to(torch.float64)`, `scale = 3.0`, `depth = 3`
and `depth = 1`. The original raises an IndexError for `depth = 3`, so that one is left out; the
others are returned, each with the mode in which it shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, final

from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl_verify.sides.subject import Call, Subject
from flodl_verify.sides.world_changes import Change, DType, changes_of
from flodl_verify.values.comparison import find_mismatches, worst_of
from flodl_verify.values.recipes import NO_PROVENANCE, Packed, pack, replace_tensors, unpack
from flodl_verify.values.snapshot import Snapshot, digested, tensors_in

Mode = Literal["eval", "train"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A change after which the original gives another result in `mode`, and the inputs to call it with."""

    change: Change
    mode: Mode
    inputs: Packed


@final
class ChangeSearch:
    """The search for changes of one model; the side must be active."""

    def __init__(self, build: Callable[[], Subject], call: Call) -> None:
        self._build = build
        self._plans = (replace(call, mode="eval", backward=False), replace(call, mode="train"))
        self._subject: Subject | None = None
        self._limit_s = 0.0

    def run(self, budget_s: float) -> list[Tried]:
        """Return the changes that show, as many as there is processor time for, in seconds."""
        self._limit_s = budget_s
        ends = time.process_time() + budget_s
        before = [self._outputs(plan) for plan in self._plans]
        found: list[Tried] = []
        for change in changes_of(self._model().model):
            if time.process_time() > ends:
                break
            tried = self._tried(change, before)
            if tried is not None:
                found.append(tried)
        return found

    def _model(self) -> Subject:
        if self._subject is None:
            self._subject = self._build()
        return self._subject

    def _outputs(self, plan: Call) -> Snapshot | None:
        try:
            # A loop may never end once a flag is changed.
            with time_limit(self._limit_s):
                seen = attempt(lambda: self._model().call(plan))
        except OutOfTimeError:
            seen = None
        if seen is None or isinstance(seen, Failure):
            self._subject = None
            return None
        return digested(seen.sections["output"])

    def _tried(self, change: Change, before: list[Snapshot | None]) -> Tried | None:
        subject = self._model()
        inputs = self._inputs(change, subject)
        undo = attempt(lambda: change.apply(subject.model))
        if isinstance(undo, Failure):
            self._subject = None  # it may have been applied in part
            return None
        for plan, first in zip(self._plans, before, strict=True):
            if first is None:
                continue
            after = self._outputs(replace(plan, inputs=inputs))
            if after is None:
                return None
            if worst_of(find_mismatches(first, after, "output")) is not None:
                if isinstance(attempt(undo), Failure):
                    self._subject = None
                return Tried(change=change, mode=plan.mode, inputs=inputs)
        if isinstance(attempt(undo), Failure):
            self._subject = None
        return None

    def _inputs(self, change: Change, subject: Subject) -> Packed:
        """Return the inputs of a changed model: of its floating point type."""
        packed = self._plans[0].inputs
        if not isinstance(change, DType):
            return packed
        arguments = unpack(packed, subject.side)
        swapped = {
            id(tensor): tensor.to(change.dtype)
            for _, tensor in tensors_in(arguments)
            if tensor.is_floating_point()
        }
        return pack(replace_tensors(arguments, swapped), NO_PROVENANCE, keep_live=True)
