"""Comparison of one case of both sides in every observable, check by check."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar, final

from flodl_verify.compare import results as names
from flodl_verify.compare.remote import (
    CaseRef,
    FailedError,
    FoundAbilities,
    FoundChange,
    Plan,
    RemoteModel,
    RemoteSide,
)
from flodl_verify.compare.results import ClassResults
from flodl_verify.protocol import Response
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.sandbox.isolated_import import Label
from flodl_verify.sides.subject import Observation
from flodl_verify.values.comparison import Mismatch, find_mismatches

T = TypeVar("T")
_Pair = tuple[RemoteModel, RemoteModel]

NUM_STEPS = 3
# Calls after changes may take so much of the time that all others took, and always so many seconds.
WORLD_SHARE = 0.3
WORLD_S = 0.5

# The section of an observation decides which check it belongs to; all others belong to the check
# for whose sake the call was made.
_SECTION_CHECK = {
    "gradients": names.GRADIENTS,
    "input gradients": names.GRADIENTS,
    "loss": names.GRADIENTS,
}
_INITIAL_CHECK = {
    "state_dict": names.STATE,
    "parameter order": names.INITIAL,
    "buffer order": names.STATE,
    "weights": names.INITIAL,
    "random draws": names.INITIAL,
}


# So many times as long as its probe a trial takes, mostly; seldom ten times.
USUAL_FACTOR = 7.0


@final
class TooSlowError(Exception):
    """The probe took so long that the rest of the trial would not end in its time."""

    def __init__(self, needs_s: float) -> None:
        super().__init__(f"it needs about {needs_s:.0f} s")
        self.needs_s = needs_s


@final
class Abandoned(Exception):  # noqa: N818 - it is no error: the results hold the finding
    """The port raised; later comparisons of the same pair of models say nothing more."""


@final
class CaseComparison:
    """The comparison of one case of a class; findings go into the results of the class."""

    def __init__(
        self,
        name: str,
        original: RemoteSide,
        port: RemoteSide,
        case: CaseRef,
        class_results: ClassResults,
        response: Response,
        allowed_s: float = math.inf,
    ) -> None:
        self._allowed_s = allowed_s
        self._name = name
        self._original = original
        self._port = port
        self._case = case
        self._results = class_results
        self._response = response
        self.seconds = {original.label: 0.0, port.label: 0.0}
        self.running: Label = original.label
        # The time that the trial needs in all, estimated by its probe; 0 before that.
        self.needs_s = 0.0
        self._pair: _Pair | None = None

    def run(self) -> None:
        """Compare the case in all checks.

        Raises:
            UnusableAnswerError: the original does not run, does not repeat itself, or returns no
                tensor.
            FailedError: a class answers otherwise than modules do.
            TooSlowError: it would take longer than is allowed, so the time is better spent on others.
        """
        self._response.start(self._name, self.running)
        started = time.monotonic()
        able = self._probed()
        self.needs_s = USUAL_FACTOR * (time.monotonic() - started)
        if self.needs_s > self._allowed_s:
            raise TooSlowError(self.needs_s)
        self._port.take("case", self._case.number, self._original)
        self._results.num_cases += 1
        if not able.batch:
            reason = "the original runs with this batch size only"
            self._results.not_run(names.BATCH, reason)
        if able.no_backward:
            self._results.not_run(names.GRADIENTS, able.no_backward)
            self._results.not_run(names.STEPS, able.no_backward)
        loaded = None
        with contextlib.suppress(Abandoned):
            loaded = self._compare_initial()
        # Building a heavy model takes longer than calling it.
        if able.heavy:
            self._pair = loaded
        elif loaded is not None:
            _drop(loaded)
        # Cases for which the time of a heavy model may not suffice come last.
        order = (self._eval_first, self._train_first, self._call_methods, self._alternatives)
        for compare in (self._each_check_once, *reversed(order)) if able.heavy else order:
            with contextlib.suppress(Abandoned):
                compare(able)
        if names.WORLD not in self._results.entries and not self._results.differs:
            with contextlib.suppress(Abandoned):
                self._after_changes(able, WORLD_SHARE * (time.monotonic() - started))

    def _probed(self) -> FoundAbilities:
        started = time.monotonic()
        try:
            return self._original.probe(self._case)
        finally:
            self.seconds[self._original.label] += time.monotonic() - started

    # -- the scenarios --------------------------------------------------------------------------

    def _compare_initial(self) -> _Pair | None:
        """Compare what constructors leave; return the pair if both have loaded the same weights."""
        left, right = pair = self._build_pair("construction")
        found = right.initial()
        for section, first in left.initial().items():
            check = _INITIAL_CHECK[section]
            mismatches = find_mismatches(first, found[section], section)
            self._results.compared(check, mismatches, "after construction")
        del found, first
        if self._load_both_ways(left, right):
            return pair
        _drop(pair)
        return None

    def _load_both_ways(self, left: RemoteModel, right: RemoteModel) -> bool:
        try:
            left.load_own()
        except FailedError as problem:
            text = f"the original does not load its own: {problem.failure.text}"
            self._results.not_run(names.STATE, text)
            return False
        all_loaded = True
        for source, target, label in (
            (left, right, "original's state_dict into the port"),
            (right, left, "port's state_dict into the original"),
        ):
            try:
                source.perturb()
                target.load_from(source)
            except FailedError as problem:
                self._results.port_failed(names.STATE, problem.failure, None, label)
                all_loaded = False
                continue
            first, second = left.initial()["weights"], right.initial()["weights"]
            self._results.compared(names.STATE, find_mismatches(first, second, "weights"), label)
            del first, second  # as large as the models: not while the next ones are made
        return all_loaded

    def _eval_first(self, able: FoundAbilities) -> None:
        with self._built() as pair:
            self._eval_first_on(pair, able)

    def _eval_first_on(self, pair: _Pair, able: FoundAbilities) -> None:
        evaluate = replace(able.plan, mode="eval", backward=False)
        for number in range(3):
            # The first call records a plan, the later ones run generated code.
            call = replace(evaluate, seed=100 + number, grad_mode=number != 2)
            self._compare_call(pair, call, names.EVAL, f"eval, call {number + 1}")
        for label, packed in able.batch:
            other = replace(evaluate, inputs=packed)
            self._compare_call(pair, other, names.BATCH, f"eval, {label}")
            self._compare_call(
                pair, replace(evaluate, seed=110), names.BATCH, "eval, first size again"
            )
            train = replace(able.plan, inputs=packed, seed=111)
            self._compare_call(pair, train, names.BATCH, f"train, {label}")
        for label, packed in able.scales:
            scaled = replace(able.plan, mode="eval", inputs=packed, seed=120)
            self._compare_call(pair, scaled, names.EVAL, f"eval, {label}")
        for label, packed in _whole(able, is_due=not able.heavy):
            every = replace(evaluate, inputs=packed, seed=114)
            self._compare_call(pair, every, names.SIZES, f"eval, {label}")
        self._compare_call(pair, replace(able.plan, seed=112), names.TRAIN, "train after eval")
        self._compare_call(pair, replace(evaluate, seed=113), names.EVAL, "eval after train")

    def _train_first(self, able: FoundAbilities) -> None:
        with self._built() as pair:
            self._train_first_on(pair, able)

    def _train_first_on(self, pair: _Pair, able: FoundAbilities) -> None:
        for number in range(2 if able.heavy else 3):
            call = replace(able.plan, seed=200 + number)
            self._compare_call(pair, call, names.TRAIN, f"train, call {number + 1}")
        evaluate = replace(able.plan, mode="eval", seed=210)
        self._compare_call(pair, evaluate, names.EVAL, "eval after train")
        pair[0].perturb()
        pair[1].perturb()
        self._compare_call(pair, evaluate, names.EVAL, "eval with moved weights")
        train = replace(able.plan, seed=211)
        self._compare_call(pair, train, names.TRAIN, "train with moved weights")
        for label, packed in _whole(able, is_due=not able.heavy):
            every = replace(able.plan, inputs=packed, seed=212)
            self._compare_call(pair, every, names.SIZES, f"train, {label}")
        if able.plan.backward:
            # Last: after steps on different gradients everything differs.
            self._compare_steps(pair, able.plan.inputs)

    def _each_check_once(self, able: FoundAbilities) -> None:
        """Compare in every check, with as few calls as that takes."""
        with self._built() as pair:
            self._each_check_on(pair, able)

    def _each_check_on(self, pair: _Pair, able: FoundAbilities) -> None:
        evaluate = replace(able.plan, mode="eval", backward=False)
        for number in range(2):  # the first records a plan, the second runs generated code
            call = replace(evaluate, seed=100 + number, grad_mode=number == 0)
            self._compare_call(pair, call, names.EVAL, f"eval, call {number + 1}")
        for number in range(2):
            call = replace(able.plan, seed=200 + number)
            self._compare_call(pair, call, names.TRAIN, f"train, call {number + 1}")
        for check, variants in (
            (names.BATCH, able.batch),
            (names.SIZES, _whole(able, is_due=True)),
        ):
            for label, packed in variants:
                other = replace(evaluate, inputs=packed)
                self._compare_call(pair, other, check, f"eval, {label}")
                train = replace(able.plan, inputs=packed, seed=111)
                self._compare_call(pair, train, check, f"train, {label}")
        for label, packed in able.scales:
            scaled = replace(evaluate, inputs=packed, seed=120)
            self._compare_call(pair, scaled, names.EVAL, f"eval, {label}")
        if able.plan.backward:
            self._compare_steps(pair, able.plan.inputs)

    def _call_methods(self, able: FoundAbilities) -> None:
        for name, arguments in able.methods:
            with contextlib.suppress(Abandoned):
                self._call_method(name, arguments)

    def _alternatives(self, able: FoundAbilities) -> None:
        for check, variants in ((names.SIZES, able.sizes), (names.OPTIONAL, able.options)):
            for label, inputs in variants:
                with contextlib.suppress(Abandoned):
                    self._alternate(check, label, inputs, able.plan)

    def _after_changes(self, able: FoundAbilities, budget_s: float) -> None:
        """Compare calls after changes of the world, each taken back before the next one."""
        ends = time.monotonic() + max(budget_s, WORLD_S)
        plan = replace(able.plan, seed=400)
        found = self._on(
            self._original,
            lambda: self._original.changes(self._case, plan, max(budget_s, WORLD_S) / 2),
        )
        if isinstance(found, Failure) or not found:
            return
        plans: dict[str, Plan] = {
            "eval": replace(plan, mode="eval", backward=False), "train": plan,
        }  # fmt: skip
        with self._built() as pair:
            for mode in dict.fromkeys(each.mode for each in found):
                self._compare_call(pair, plans[mode], names.WORLD, f"{mode}, before changes")
            for number, each in enumerate(found):
                if time.monotonic() > ends and number:
                    break
                call = replace(plans[each.mode], inputs=each.inputs, seed=401 + number)
                self._compare_changed(pair, each, call)
            for call in plans.values():
                where = f"{call.mode}, with all changes taken back"
                self._compare_call(pair, call, names.WORLD, where)

    def _compare_changed(self, pair: _Pair, found: FoundChange, call: Plan) -> None:
        left, right = pair
        where = f"{found.mode}, after `{found.label}`"
        self._port.take("inputs", call.inputs, self._original)
        if isinstance(self._on(self._original, lambda: left.change(found.change)), Failure):
            raise Abandoned
        failed = self._on(self._port, lambda: right.change(found.change))
        if isinstance(failed, Failure):
            self._results.port_failed(names.WORLD, failed, failed.line, where)
            raise Abandoned
        self._compare_call(pair, call, names.WORLD, where)
        for side, model in ((self._original, left), (self._port, right)):
            if isinstance(self._on(side, model.undo_change), Failure):
                raise Abandoned

    def _call_method(self, name: str, arguments: int) -> None:
        # A fresh pair: the method may be the first thing that is called at all.
        with self._built() as (left, right):
            where = f"`{name}` called from outside"
            seen = self._on(self._original, lambda: left.call_method(name, arguments))
            if isinstance(seen, Failure):
                return
            self._port.take("inputs", arguments, self._original)
            found = self._on(self._port, lambda: right.call_method(name, arguments))
            if isinstance(found, Failure):
                self._results.port_failed(names.METHODS, found, found.line, where)
                return
            for section, first in seen.items():
                mismatches = find_mismatches(first, found[section], section)
                self._results.compared(names.METHODS, mismatches, where)

    def _alternate(self, check: str, label: str, inputs: int, plan: Plan) -> None:
        train = replace(plan, inputs=inputs)
        first = replace(plan, seed=302)
        with self._built() as pair:
            for call, where in (
                (replace(train, seed=300), f"train, {label}"),
                (replace(train, seed=301, mode="eval", backward=False), f"eval, {label}"),
                (first, "train, first inputs again"),
                (
                    replace(first, seed=303, mode="eval", backward=False),
                    "eval, first inputs again",
                ),
            ):
                self._compare_call(pair, call, check, where)

    def _on(self, side: RemoteSide, call: Callable[[], T]) -> T | Failure:
        """Let a side run user code, and keep the time it took there."""
        if self.running != side.label:
            self._response.start(self._name, side.label)
        self.running = side.label
        started = time.monotonic()
        try:
            return call()
        except FailedError as problem:
            return problem.failure
        finally:
            self.seconds[side.label] += time.monotonic() - started

    # -- one comparison -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _built(self) -> Iterator[_Pair]:
        """Build a pair of models for the block, or take the one that is there."""
        pair, self._pair = self._pair or self._build_pair("construction"), None
        try:
            yield pair
        finally:
            _drop(pair)

    def _build_pair(self, where: str) -> _Pair:
        left = self._original.build(self._case)
        right = self._on(self._port, lambda: self._port.build(self._case))
        if isinstance(right, Failure):
            left.drop()
            self._results.port_failed(names.INITIAL, right, right.line, where)
            raise Abandoned
        return left, right

    def _compare_call(self, pair: _Pair, call: Plan, check: str, where: str) -> None:
        left, right = pair
        self._port.take("inputs", call.inputs, self._original)
        seen = self._on(self._original, lambda: left.call(call))
        if isinstance(seen, Failure):
            self._results.not_run(check, f"the original raises {seen.text} [{where}]")
            raise Abandoned
        found = self._on(self._port, lambda: right.call(call, seen.attribute_names))
        if isinstance(found, Failure):
            self._results.port_failed(check, found, found.line, where)
            raise Abandoned
        self._compare_sections(seen, found, call, check, where)

    def _compare_sections(
        self, seen: Observation, found: Observation, call: Plan, check: str, where: str
    ) -> None:
        for section, first in seen.sections.items():
            if section not in found.sections:
                gone = Mismatch(path=section, text="the port gives none")
                self._results.compared(_check_of(section, check, call), (gone,), where)
                continue
            mismatches = find_mismatches(first, found.sections[section], section)
            self._results.compared(_check_of(section, check, call), mismatches, where)
        self._results.left_out(seen.unread)
        if call.backward and seen.num_differentiable == 0:
            reason = "no output of the original depends on a parameter or an input"
            self._results.not_run(names.GRADIENTS, reason)

    def _compare_steps(self, pair: _Pair, inputs: int) -> None:
        left, right = pair
        if not left.trains:
            self._results.not_run(names.STEPS, "the model has no parameters to train")
            return
        where = f"{NUM_STEPS} steps of SGD"
        seen = self._on(self._original, lambda: left.train_steps(inputs, NUM_STEPS))
        if isinstance(seen, Failure):
            self._results.not_run(names.STEPS, f"the original raises {seen.text}")
            return
        found = self._on(self._port, lambda: right.train_steps(inputs, NUM_STEPS))
        if isinstance(found, Failure):
            self._results.port_failed(names.STEPS, found, found.line, where)
            raise Abandoned
        for section, first in seen.items():
            mismatches = find_mismatches(first, found[section], section)
            self._results.compared(names.STEPS, mismatches, where)


def _whole(able: FoundAbilities, *, is_due: bool) -> tuple[tuple[str, int], ...]:
    """Return all of the inputs that were found, where calls are made with less of them."""
    return (("all of the inputs", able.whole),) if is_due and able.whole is not None else ()


def _check_of(section: str, check: str, call: Plan) -> str:
    """Return the check that a section of an observation belongs to."""
    if check == names.WORLD:
        return check
    if section == "buffers" and call.mode == "train":
        return names.BUFFERS
    return _SECTION_CHECK.get(section, check)


def _drop(pair: _Pair) -> None:
    for model in pair:
        model.drop()
