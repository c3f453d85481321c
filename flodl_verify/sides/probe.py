"""Probe of the original on a case: the calls that it takes, and whether it repeats itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol, TypeVar, final

from flodl_verify.inputs.recorder import Case
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sides.methods import MethodCall, methods_used
from flodl_verify.sides.other_methods import other_methods
from flodl_verify.sides.subject import Call, Observation, Subject
from flodl_verify.sides.variants import (
    Variant,
    batch_variants,
    optional_variants,
    scaled_variants,
    short_batches,
    shrunk_variants,
    size_variants,
)
from flodl_verify.values.comparison import find_mismatches, worst_of
from flodl_verify.values.recipes import NO_PROVENANCE, Packed, pack, unpack
from flodl_verify.values.snapshot import Snapshot, digested, is_all_nan

T = TypeVar("T")
Accepted = tuple[tuple[str, Packed], ...]
Sections = tuple[Mapping[str, Snapshot], ...]

MAX_SIZES = 3
MAX_SIZE_TRIES = 8
MAX_OPTIONS = 6
# A model that needs this long for building, one step and one evaluation is called less often.
HEAVY_S = 0.6
# One that needs this long for two of each is called as often as others, but mostly on few rows.
LARGE_S = 0.1


UnusableCode = Literal["original-raises", "no-tensor-output", "nan-output", "not-deterministic"]


class Runner(Protocol):
    """Runs user code on a side and keeps the time."""

    def __call__(self, side: Side, call: Callable[[], T]) -> T | Failure:
        """Return the result of the call, or its failure."""


@final
class UnusableCaseError(Exception):
    """The original itself does not run on this case, or gives nothing to compare."""

    def __init__(self, reason: str, code: UnusableCode, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.line = line


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The most demanding call that the original takes, and other inputs that it takes as well.

    `no_backward` says why a call is without backward pass; it is empty when there is one. A `heavy` model
    is called less often. `whole` are the inputs that were found, where `plan` has less.
    """

    plan: Call
    batch: Accepted
    sizes: Accepted
    scales: Accepted
    options: Accepted
    methods: tuple[MethodCall, ...]
    no_backward: str
    heavy: bool
    whole: Packed | None


def probe_original(original: Side, case: Case, run: Runner) -> Abilities:
    """Try the original on a case.

    Raises:
        UnusableCaseError: it does not run, does not repeat itself, or returns no tensor.
    """
    started = time.process_time()
    plan, no_backward, used_subject = _most_demanding_call(original, case, run)
    spent = time.process_time() - started
    heavy = spent > 2 * HEAVY_S

    def find() -> Abilities:
        # Building a heavy model takes longer than calling it.
        subject = used_subject if heavy else Subject.build(original, case.construction)
        arguments = unpack(case.inputs, original)
        small: Accepted = ()
        if spent > LARGE_S:
            # A found case may be large: compare on less of it, and once on all.
            less = shrunk_variants(arguments) if heavy else short_batches(arguments)
            small = _accepted(subject, plan, less, 1)
        if small:
            arguments = unpack(small[0][1], original)
        forward = subject.model.forward
        tries = (0 if small else 4) if heavy else MAX_SIZE_TRIES
        sizes = list(size_variants(arguments))[:tries]
        scales = list(scaled_variants(arguments))[: 1 if heavy else 2]
        options = optional_variants(forward, arguments)[:MAX_OPTIONS]
        used = methods_used(subject, plan, NO_PROVENANCE)
        if not heavy:
            names = tuple(item.name for item in used)
            build = partial(Subject.build, original, case.construction)
            made_by = type(subject.model)
            used += other_methods(made_by, build, plan, names, NO_PROVENANCE)
        return Abilities(
            plan=replace(plan, inputs=small[0][1]) if small else plan,
            batch=_accepted(subject, plan, batch_variants(arguments), 1),
            sizes=_accepted(subject, plan, sizes, MAX_SIZES),
            scales=_accepted(subject, plan, scales, 2),
            options=_accepted(subject, plan, options, MAX_OPTIONS),
            methods=used,
            no_backward=no_backward,
            heavy=heavy,
            whole=case.inputs if small else None,
        )

    found = run(original, find)
    if isinstance(found, Failure):
        raise UnusableCaseError(f"the original ran, then raised {found.text}", "original-raises")
    return found


def _most_demanding_call(original: Side, case: Case, run: Runner) -> tuple[Call, str, Subject]:
    plain = Call(inputs=case.inputs, seed=100, mode="train")
    with_backward = replace(plain, backward=True)
    failure: Failure | None = None
    for call in (replace(with_backward, input_gradients=True), with_backward, plain):
        first = _observe(original, case, call, run)
        if isinstance(first, Failure):
            failure = first
            continue
        expected = first[0]
        del first  # its model is not needed while the next one is made
        second = _observe(original, case, call, run)
        if isinstance(second, Failure):
            reason = f"the original ran once, then raised {second.text}"
            raise UnusableCaseError(reason, "not-deterministic", second.line)
        sections, subject = second
        _require_equal(expected, sections)
        backward_failed = failure is not None and not call.backward
        why = f"the original's backward pass raises {failure}" if backward_failed else ""
        return call, why, subject
    assert failure is not None
    text = f"the original raises {failure.text}"
    raise UnusableCaseError(text, "original-raises", failure.line)


def _observe(
    original: Side, case: Case, call: Call, run: Runner
) -> tuple[Sections, Subject] | Failure:
    def observe() -> tuple[Mapping[str, Snapshot], Observation, Observation, Subject]:
        subject = Subject.build(original, case.construction)
        # The first run is kept during the second one: only whether they are equal matters.
        initial = _digested(subject.initial())
        seen = subject.call(call)
        if not is_all_nan(seen.sections["output"]):
            seen = replace(seen, sections=_digested(seen.sections))
        evaluated = subject.call(replace(call, mode="eval", seed=101))
        return initial, seen, evaluated, subject

    outcome = run(original, observe)
    if isinstance(outcome, Failure):
        return outcome
    initial, seen, evaluated, subject = outcome
    if seen.num_tensors == 0:
        raise UnusableCaseError("the original returns no tensor", "no-tensor-output")
    if is_all_nan(seen.sections["output"]):
        raise UnusableCaseError("the original computes nothing but NaN", "nan-output")
    return (initial, seen.sections, evaluated.sections), subject


def _digested(sections: Mapping[str, Snapshot]) -> dict[str, Snapshot]:
    return {name: digested(item) for name, item in sections.items()}


def _require_equal(first: Sections, second: Sections) -> None:
    for left, right in zip(first, second, strict=True):
        for section in left:
            worst = worst_of(find_mismatches(left[section], right[section], section))
            if worst is not None and worst.grade != "unseen":  # the comparison with the port tells
                reason = f"the original is not deterministic under one seed ({worst})"
                raise UnusableCaseError(reason, "not-deterministic")


def _accepted(subject: Subject, plan: Call, variants: Iterable[Variant], most: int) -> Accepted:
    accepted: list[tuple[str, Packed]] = []
    groups: set[str] = set()
    for variant in variants:
        if variant.group in groups:
            continue
        packed = pack(variant.arguments, NO_PROVENANCE, keep_live=True)
        train = replace(plan, inputs=packed)
        evaluate = replace(train, mode="eval", backward=False)
        if all(_runs(subject, call) for call in (evaluate, train)):
            accepted.append((variant.label, packed))
            groups.add(variant.group)
        if len(accepted) == most:
            break
    return tuple(accepted)


def _runs(subject: Subject, call: Call) -> bool:
    return not isinstance(attempt(lambda: subject.rehearse(call)), Failure)
