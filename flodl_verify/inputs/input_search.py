"""Search for inputs of a model by its errors about those that it does not take.

A call that fails says something about sizes ("expected input to have 7 channels, but got 32"), and
how far it came. Inputs are changed one step at a time, and a change that comes further is kept and
changed again.
"""

from __future__ import annotations

import heapq
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from torch import nn

from flodl_verify.inputs.heavy_inputs import TOO_HEAVY, Weights
from flodl_verify.inputs.progress import CallProgress, reach_of
from flodl_verify.inputs.rules.bundled_inputs import Bundles, bundled, bundles_of
from flodl_verify.inputs.rules.input_changes import changes_of
from flodl_verify.inputs.rules.layer_shapes import guess_arguments, optional_names, required_names
from flodl_verify.inputs.rules.list_inputs import guess_lists
from flodl_verify.inputs.rules.shipped_inputs import names_its_inputs, shipped_inputs
from flodl_verify.inputs.rules.size_hints import Hints, hints_of, sequence_shape
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.values.input_slots import State, is_small, state_of, values_of
from flodl_verify.values.recipes import Arguments

MAX_CALLS = 300
MAX_STARTS = 4
# A place from which so many changes came no further is left for the next best one.
PATIENCE = 80
MAX_ALIKE = 6
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIGITS = re.compile(r"\d+")
_MAX_KNOWN_SIZES = 12
# So often a model that names its inputs may ask for one more.
_MAX_NAMED = 4

Try = Callable[[Arguments], CallProgress]


def find_arguments(
    model: nn.Module, file: Path, is_over: Callable[[], bool], made_of: Arguments | None = None
) -> Arguments | Failure | None:
    """Return arguments that the model takes, or what it said about those with which it came furthest.

    `file` is the one whose lines failures name; `made_of` are the constructor's arguments. Without
    time for a single try, nothing is returned.
    """
    bundles = bundles_of(model)
    found = _find(model, bundles, file, is_over, made_of)
    if bundles and not isinstance(found, tuple) and not is_over():
        # An apparent bundle may be a tensor, taken apart along its first dimension.
        whole = _find(model, {}, file, is_over, made_of)
        return whole if isinstance(whole, tuple) else found
    return found


def _find(
    model: nn.Module,
    bundles: Bundles,
    file: Path,
    is_over: Callable[[], bool],
    made_of: Arguments | None,
) -> Arguments | Failure | None:
    furthest: CallProgress | None = None
    refused: list[tuple[Arguments, CallProgress]] = []
    names, _ = required_names(model)
    weights = Weights()

    def attempt(one_by_one: Arguments) -> CallProgress:
        nonlocal furthest
        if weights.is_too_heavy(one_by_one):
            return TOO_HEAVY
        args, kwargs = bundled(one_by_one, names, bundles)
        started = time.process_time()
        reach = reach_of(lambda: model(*args, **kwargs), file)
        weights.note(one_by_one, time.process_time() - started, reach)
        if furthest is None or reach.progress > furthest.progress:
            furthest = reach
        return reach

    def refusal() -> Failure | None:
        return None if furthest is None else furthest.failure

    hints = hints_of(model, made_of)
    likeliest = (
        _shipped(model, refusal, file),
        () if bundles else guess_lists(model, made_of),
        guess_arguments(model, hints, bundles=bundles),
        _with_optional(model, hints, bundles, refusal, file),
    )
    for arguments in itertools.chain(*likeliest):
        if is_over():
            return refusal()
        reach = attempt(arguments)
        if reach.failure is None:
            return bundled(arguments, names, bundles)
        refused.append((arguments, reach))
    refused.sort(key=lambda item: item[1].progress, reverse=True)
    sizes = known_sizes(model, hints)
    found = search_arguments(sizes, refused[:MAX_STARTS], attempt, is_over)
    return refusal() if found is None else bundled(found, names, bundles)


def _shipped(
    model: nn.Module, refused: Callable[[], Failure | None], file: Path
) -> Iterator[Arguments]:
    """Yield the inputs that a model says itself, with further ones as long as a refusal names them."""
    if not names_its_inputs(model):
        return
    names = [*itertools.chain(*required_names(model)), *optional_names(model)]
    wanted: list[str] = []
    for _ in range(_MAX_NAMED):
        yield from shipped_inputs(model, names, wanted)
        refusal = refused()
        named = [] if refusal is None else _named_in(refusal, names, file)
        more = [name for name in named if name not in wanted]
        if not more:
            return
        wanted.append(more[0])  # `either input_ids or inputs_embeds`: not both


def _named_in(refusal: Failure, names: Sequence[str], file: Path) -> list[str]:
    """Return the arguments that a refusal names: in its words, or where something is None, by its line."""
    said = set(_WORD.findall(refusal.text))
    if "None" in refusal.text and refusal.line is not None:
        lines = file.read_text("utf-8", "replace").splitlines()
        if refusal.line <= len(lines):
            said |= set(_WORD.findall(lines[refusal.line - 1]))
    return [name for name in names if name in said]


def _with_optional(
    model: nn.Module,
    hints: Hints,
    bundles: Bundles,
    refused: Callable[[], Failure | None],
    file: Path,
) -> Iterator[Arguments]:
    """Yield guesses with those optional arguments that a refusal names, or that its line uses as tensors."""
    refusal = refused()
    said = set(_WORD.findall(refusal.text)) if refusal is not None else set()
    for name in optional_names(model):
        # `You have to specify either input_ids or inputs_embeds`: one of them.
        if name in said:
            yield from guess_arguments(model, hints, [name], bundles)
    if refusal is None or "None" not in refusal.text or refusal.line is None:
        return
    lines = file.read_text("utf-8", "replace").splitlines()
    words = set(_WORD.findall(lines[refusal.line - 1])) if refusal.line <= len(lines) else set()
    wanted = [name for name in optional_names(model) if words & {name, name.rpartition("_")[2]}]
    if wanted:
        yield from guess_arguments(model, hints, wanted, bundles)


def search_arguments(
    sizes: tuple[int, ...],
    starts: Sequence[tuple[Arguments, CallProgress]],
    attempt: Try,
    is_over: Callable[[], bool],
) -> Arguments | None:
    """Return arguments that a model takes, found from some that it refused; None if not found.

    `sizes` are those that the model is known to have.
    """
    search = _Search(sizes)
    for arguments, reach in starts:
        state = state_of(arguments)
        if state is not None:
            search.add(state, reach)
    for _ in range(MAX_CALLS):
        if is_over():
            return None
        state = search.next_state()
        if state is None:
            return None
        reach = attempt(values_of(state))
        if reach.failure is None:
            return values_of(state)
        search.add(state, reach)
    return None


def known_sizes(model: nn.Module, hints: Hints) -> tuple[int, ...]:
    """Return sizes that a model's own names and parameters give, few and likeliest first."""
    found: dict[int, None] = {}
    sequence = sequence_shape(hints)
    inner = [hints_of(child) for child in model.children()]
    named = [value for sizes in (hints, *inner) for value in sizes.values()]
    for value in (*(sequence or ()), *named):
        if value > 1:
            found.setdefault(value)
    kept = tuple(found)[:_MAX_KNOWN_SIZES]
    shapes = [item.shape for item in itertools.islice(nn.Module.parameters(model), 4)]
    return tuple(dict.fromkeys((*kept, *(size for shape in shapes for size in shape if size > 1))))


@final
@dataclass(slots=True, eq=False)
class _Place:
    """A state that was tried, and the changes of it that are left."""

    state: State
    changes: Iterator[State]
    patience: int = PATIENCE


@final
@dataclass(slots=True)
class _Search:
    """The places known so far, the one that came furthest first."""

    sizes: tuple[int, ...]
    _heap: list[tuple[tuple[int, int, int], _Place]] = field(default_factory=list)
    _seen: set[State] = field(default_factory=set)
    _complaints: Counter[tuple[tuple[int, int], str]] = field(default_factory=Counter)
    _number: int = 0

    def add(self, state: State, reach: CallProgress) -> None:
        """Keep a state that failed, if nothing like it is known."""
        self._seen.add(state)
        text = reach.failure.text if reach.failure is not None else ""
        # The same complaint about other numbers, as far along, is worth only so many attempts. A
        # new one is looked at first: something was changed that mattered.
        complaint = (reach.progress, _DIGITS.sub("#", text))
        self._complaints[complaint] += 1
        if self._complaints[complaint] > MAX_ALIKE:
            return
        self._number += 1
        order = -self._number if self._complaints[complaint] == 1 else self._number
        places, steps = reach.progress
        place = _Place(state=state, changes=changes_of(state, text, self.sizes))
        heapq.heappush(self._heap, ((-places, -steps, order), place))

    def next_state(self) -> State | None:
        """Return the next state to try; None when all changes were tried."""
        while self._heap:
            (_, _, order), best = self._heap[0]
            for state in best.changes:
                if state not in self._seen and is_small(state):
                    self._seen.add(state)
                    best.patience -= 1
                    if best.patience == 0:
                        heapq.heapreplace(self._heap, ((1, 0, order), best))
                    return state
            heapq.heappop(self._heap)
        return None
