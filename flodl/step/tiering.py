"""Tiering: begin eagerly, compile in the background, prove, measure on real batches, keep the faster."""

from __future__ import annotations

import statistics
import time
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import torch

from flodl.step.accumulation import Accumulation
from flodl.step.artifact import Compilation, compiler_missing, expected_seconds, is_compiled
from flodl.step.batch_key import Key, read
from flodl.step.binding import Binding, has_state
from flodl.step.captured import GraphStep, make_capturable, prove_graph
from flodl.step.program import record_all
from flodl.step.proof import bound, prove
from flodl.step.refusal import RefusedStepError
from flodl.step.step_guards import hooks_of
from flodl.step.value_guards import ValueGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from flodl.step.compiled import AbstractCompiledStep
    from flodl.step.eager import EagerStep
    from flodl.step.program import Program

TriedMode: TypeAlias = Literal["graph", "compiled"]
Phase: TypeAlias = Literal["warm", "compiling", "trial", "running", "refused"]
_SEEN_BEFORE_TRYING = 4  # shapes that come more rarely stay eager
_SECONDS_BEFORE_TRYING = 3.0  # a run that is over by then gains nothing from a compiler
# Of the time that is left, as measured for eight models on two cores: 1.1 to 1.9 times as fast.
_SAVED_SHARE = 0.2
# Recording, proving and trying take some two seconds where the compiled step is there already.
_SECONDS_FOR_A_TRIAL = 2.0
_PROOF_STEPS = 3
# How many of the last batches need the values that were read: a number may be another one each time.
_SAME_VALUES = 2
_TRIAL_ROUNDS = 12
_MOST_SHAPES = 4
_LOOK_FOR_HOOKS_EVERY = 64
# A tie goes to eager: it needs no explanation.
_FASTER = 0.98


@final
@dataclass(slots=True)
class Turn:
    """One way's turn in the trial: a batch, or as many as an accumulation has."""

    way: Literal["captured", "eager"]
    steps: int = 0
    seconds: float = 0.0


@final
class Attempt:
    """The state of one form of batches: their shapes, and the values that a step reads of them."""

    def __init__(self, tried_modes: tuple[TriedMode, ...]) -> None:
        self.tried_modes = tried_modes
        self.phase: Phase = "warm"
        self.seen = 0
        self.spent = 0.0
        self.batches: deque[Any] = deque(maxlen=_PROOF_STEPS)
        self.compilations: tuple[Compilation, ...] = ()
        self.step: AbstractCompiledStep | GraphStep | None = None
        # The reads of a step are known when it is recorded; until then the attempt is for all values.
        self.guard = ValueGuard()
        self.evidence = ""
        self.turn = Turn("eager")
        self.times: dict[str, list[float]] = {"eager": [], "captured": []}

    @property
    def tried_mode(self) -> TriedMode:
        """The mode that is tried, or runs, instead of eager."""
        return self.tried_modes[0]

    def made(self) -> str:
        """Return the origin of the compiled step, as the end of a line."""
        if not self.compilations:
            return ""
        if all(each.cached for each in self.compilations):
            return "; compiled from an earlier run"
        return f"; compiled in {max(each.seconds for each in self.compilations):.0f} s"

    def is_rare(self) -> bool:
        """Return True if other batches had other values; the attempt then waits for more of them."""
        self.keep_matching()
        rare = len(self.batches) < _SAME_VALUES
        if rare:
            self.seen, self.spent = len(self.batches), 0.0
        return rare

    def keep_matching(self) -> None:
        """Forget the batches of which another step would be recorded."""
        matching = [each for each in self.batches if self.guard.holds(read(each)[0])]
        self.batches.clear()
        self.batches.extend(matching)

    def stop(self) -> None:
        """End what is being compiled."""
        for each in self.compilations:
            each.stop()


def _unknown() -> float | None:
    return None


def _call(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    found = method()
    if found is not None:
        found()


@final
class Tiering:
    """Chooses, batch by batch, how the step runs."""

    def __init__(
        self,
        eager: EagerStep,
        say: Callable[[str], None],
        *,
        patient: bool,
        measured: bool,
        tried_modes: tuple[TriedMode, ...],
    ) -> None:
        """Begin with eager steps.

        Args:
            eager: the step that is always right.
            say: takes one line whenever something is decided.
            patient: wait for the compiler instead of running eagerly meanwhile.
            measured: keep another step only if it is faster.
            tried_modes: the modes to try instead of eager, in this order.
        """
        self.mode = "eager"
        self._eager = eager
        self._recipe = eager.recipe
        self._say = say
        self._patient = patient
        self._measured = measured
        self._tried_modes = tried_modes
        self._attempts: dict[Key, list[Attempt]] = {}
        self._binding: Binding | None = None
        self._accumulation: Accumulation | None = None
        self._closed = False
        self._hooked = False
        self._crowded = False
        self._steps = 0
        # The batches that are left, where that is known.
        self.batches_left: Callable[[], float | None] = _unknown
        # The optimizer may live longer than this step.
        forget = weakref.WeakMethod(self._forget)
        self._recipe.optimizer.register_load_state_dict_post_hook(lambda _: _call(forget))

    def __call__(self, batch: Any) -> Tensor:
        """Run one step in the best way that is known to be right for this batch."""
        try:
            tensors, key = read(batch)
        except RefusedStepError as error:
            return self._not_at_all(batch, str(error))
        attempt = self._attempt_for(key, tensors)
        if attempt is not None and attempt.phase == "running":
            loss = self._captured(attempt, tensors)
            if loss is not None:
                return loss
            attempt = self._attempt_for(key, tensors)
        return self._otherwise(batch, tensors, key, attempt)

    def _attempt_for(self, key: Key, tensors: list[Tensor]) -> Attempt | None:
        """Return the attempt for a batch; at most the last one of a key has no guard yet."""
        for attempt in self._attempts.get(key, ()):
            if attempt.guard.holds(tensors):
                return attempt
        return None

    # ---- the two ways -------------------------------------------------------------------------

    def _captured(self, attempt: Attempt, tensors: list[Tensor]) -> Tensor | None:
        step = attempt.step
        if step is None:
            return None
        why = step.stale()
        if why is not None:
            self._start_over(why)
            return None
        loss = step(tensors)
        if loss is None:
            self._start_over("the settings of the optimizer changed")
            return None
        if self.mode == "eager":
            # Compiled steps leave no gradients; those of the last eager step would only mislead.
            if attempt.tried_mode == "compiled":
                self._recipe.optimizer.zero_grad(set_to_none=True)
            self.mode = attempt.tried_mode
        self._eager.metrics = step.metrics
        self._eager.gradient_norm = step.gradient_norm
        return loss

    def _run_eagerly(self, batch: Any) -> Tensor:
        self.mode = "eager"
        if self._binding is not None:
            self._binding.stepped_outside()
        return self._eager(batch)

    def _not_at_all(self, batch: Any, why: str) -> Tensor:
        if not self._closed:
            self._closed = True
            self._say(f"eager: {why}")
        return self._run_eagerly(batch)

    def update(self) -> None:
        """Update with the batches of an unfinished accumulation."""
        self.mode = "eager"
        if self._binding is not None:
            self._binding.stepped_outside()
        self._eager.update()

    # ---- on the way ---------------------------------------------------------------------------

    def _otherwise(
        self, batch: Any, tensors: list[Tensor], key: Key, attempt: Attempt | None
    ) -> Tensor:
        self._steps += 1
        if self._closed or self._waits_for_hooks():
            return self._run_eagerly(batch)
        if attempt is None:
            if len(self._each()) >= _MOST_SHAPES:
                if not self._crowded:
                    self._crowded = True
                    self._say(
                        f"{self.mode}: batches of more than {_MOST_SHAPES} forms; others are eager"
                    )
                return self._run_eagerly(batch)
            attempt = Attempt(self._tried_modes)
            self._attempts.setdefault(key, []).append(attempt)
        attempt.seen += 1
        if attempt.phase == "trial":
            return self._trial(attempt, batch, tensors)
        if attempt.phase == "compiling":
            return self._while_compiling(attempt, batch)
        start = time.perf_counter()
        loss = self._run_eagerly(batch)
        if attempt.phase == "warm":
            attempt.spent += time.perf_counter() - start
            attempt.batches.append(batch)
            if self._worth_trying(attempt):
                self._attempt(attempt, lambda: self._begin(attempt, batch))
        return loss

    def _waits_for_hooks(self) -> bool:
        """Look now and then whether the hooks that forbade compiling are gone."""
        if self._hooked and self._steps % _LOOK_FOR_HOOKS_EVERY == 0:
            self._hooked = hooks_of(self._recipe) is not None
        return self._hooked

    def _worth_trying(self, attempt: Attempt) -> bool:
        # The state of an optimizer and the form of gradients are known after its first update.
        if self._eager.position or not has_state(self._recipe.optimizer):
            return False
        if self._patient:
            return True
        often = attempt.seen >= _SEEN_BEFORE_TRYING
        return often and attempt.spent >= _SECONDS_BEFORE_TRYING

    def _require_gain(self, attempt: Attempt, programs: Sequence[Program] = ()) -> None:
        """Refuse a compiled step that saves less than it costs, where the batches left are known.

        A compiler takes processor time from a training that uses all cores, so it counts in full.

        Raises:
            RefusedStepError: it does not pay.
        """
        batches = None if self._patient else self.batches_left()
        if batches is None:
            return
        left = batches * attempt.spent / max(attempt.seen, 1)
        regions = [region for each in programs for region in each.regions]
        count = sum(len(each.graph.graph.nodes) for each in regions if not is_compiled(each))
        cost = expected_seconds(count)
        if _SAVED_SHARE * (left - cost) >= cost + _SECONDS_FOR_A_TRIAL:
            return
        work = f", whose {count} operations take about {cost:.0f} s to compile" if count else ""
        raise RefusedStepError(
            f"{batches:.0f} batches are left, about {left:.0f} s: too short to gain from a compiled "
            f"step{work}"
        )

    def _begin(self, attempt: Attempt, batch: Any) -> None:
        hooked = hooks_of(self._recipe)
        if hooked:
            self._hooked = True
            self._attempts.clear()
            raise RefusedStepError(hooked)
        self._require_gain(attempt)
        if attempt.tried_mode == "graph":
            self._record_graph(attempt, batch)
        else:
            self._compile(attempt, batch)

    def _record_graph(self, attempt: Attempt, batch: Any) -> None:
        batches = list(attempt.batches)
        attempt.batches.clear()
        if any(each.is_cpu for each in read(batch)[0]):
            raise RefusedStepError("a CUDA graph keeps the first values of a batch on the CPU")
        make_capturable(self._recipe.optimizer)
        attempt.evidence = prove_graph(self._recipe, batches, [read(b)[0] for b in batches])
        attempt.step = GraphStep(self._recipe, batch, read(batch)[0])
        attempt.phase = "trial" if self._measured else "running"
        if not self._measured:
            self._say(f"graph: {attempt.evidence}")

    def _compile(self, attempt: Attempt, batch: Any) -> None:
        missing = compiler_missing(self._recipe.device())
        if missing:
            self._closed = True
            raise RefusedStepError(missing)
        start = time.perf_counter()
        if self._binding is None:
            self._binding = Binding(self._recipe)
            self._accumulation = (
                Accumulation(self._binding.trained) if self._recipe.in_parts else None
            )
        programs = record_all(self._recipe, self._binding.layout, batch)
        attempt.guard = programs[0].guard
        if not self._patient and attempt.is_rare():
            return
        self._require_gain(attempt, programs)
        quietly = not self._patient
        attempt.compilations = tuple(Compilation(each, quietly=quietly) for each in programs)
        attempt.phase = "compiling"
        if self._closed:  # while it was recorded
            attempt.stop()
        seconds = time.perf_counter() - start
        if self._patient:
            for each in attempt.compilations:
                each.wait()
            attempt.batches.extend([batch] * (_PROOF_STEPS - 1))
            self._prove(attempt)
        elif not all(each.cached for each in attempt.compilations):
            count = sum(len(each.graph.graph.nodes) for each in programs)
            new = sum(each.operations for each in attempt.compilations)
            part = f", {new} of them new," if new < count else ""
            self._say(
                f"eager, while a step of {count} operations{part} is compiled beside it "
                f"(recorded in {seconds:.1f} s)"
            )

    def _attempt(self, attempt: Attempt, action: Callable[[], None]) -> None:
        try:
            action()
        except (RefusedStepError, torch.OutOfMemoryError) as error:
            attempt.batches.clear()
            attempt.step = None
            attempt.tried_modes = attempt.tried_modes[1:]
            attempt.phase = "warm" if attempt.tried_modes else "refused"
            self._say(f"eager: {str(error).splitlines()[0]}")

    def _while_compiling(self, attempt: Attempt, batch: Any) -> Tensor:
        loss = self._run_eagerly(batch)
        attempt.batches.append(batch)
        ended = all(each.poll() for each in attempt.compilations)
        if ended and len(attempt.batches) == _PROOF_STEPS and not self._eager.position:
            self._attempt(attempt, lambda: self._prove(attempt))
        return loss

    def _prove(self, attempt: Attempt) -> None:
        binding = self._binding
        made = [(each.program, each.result()) for each in attempt.compilations]
        if binding is None or binding.stale():
            self._start_over((binding and binding.stale()) or "the optimizer's state was loaded")
            return
        attempt.keep_matching()
        batches = list(attempt.batches)
        # A loader may have filled the memory of a batch again, which then has other values.
        if len(batches) < _PROOF_STEPS:
            return
        attempt.batches.clear()
        attempt.evidence = prove(self._eager, binding.layout, made, batches)
        attempt.step = bound(made, binding, self._eager, self._accumulation)
        attempt.phase = "trial" if self._measured else "running"
        if not self._measured:
            self._say(f"compiled: {attempt.evidence}{attempt.made()}")

    def _trial(self, attempt: Attempt, batch: Any, tensors: list[Tensor]) -> Tensor:
        """Run real steps in both ways in turn; each of them counts."""
        times, turn = attempt.times, attempt.turn
        if self._eager.position == 0:
            behind = len(times["captured"]) <= len(times["eager"])
            turn = attempt.turn = Turn("captured" if behind else "eager")
        self._synchronize()
        start = time.perf_counter()
        loss = self._captured(attempt, tensors) if turn.way == "captured" else None
        if loss is None:
            if turn.way == "captured":  # it went stale; this shape starts again
                return self._run_eagerly(batch)
            loss = self._run_eagerly(batch)
        self._synchronize()
        turn.seconds += time.perf_counter() - start
        turn.steps += 1
        # Batches of another shape may have taken part in the accumulation: then it says nothing.
        if self._eager.position == 0 and turn.steps == self._recipe.accumulate:
            times[turn.way].append(turn.seconds / turn.steps)
        if len(times["eager"]) == _TRIAL_ROUNDS:
            self._decide(attempt)
        return loss

    def _synchronize(self) -> None:
        if self._recipe.device().type == "cuda":
            torch.cuda.synchronize()

    def _decide(self, attempt: Attempt) -> None:
        # The first of each pays for what later ones find ready.
        medians = {name: statistics.median(each[2:]) for name, each in attempt.times.items()}
        eager, captured = medians["eager"], medians["captured"]
        made = attempt.made()
        figures = f"{captured * 1e3:.3g} ms against {eager * 1e3:.3g} ms eager"
        if captured < eager * _FASTER:
            attempt.phase = "running"
            self._say(
                f"{attempt.tried_mode}: {eager / captured:.2f}x as fast ({figures}), {attempt.evidence}{made}"
            )
        else:
            attempt.phase = "refused"
            attempt.step = None
            self._say(f"eager: {attempt.tried_mode} is not faster ({figures}){made}")

    # ---- going back ---------------------------------------------------------------------------

    def _start_over(self, why: str) -> None:
        self._forget()
        self._say(f"eager: {why}")

    def _each(self) -> list[Attempt]:
        return [each for attempts in self._attempts.values() for each in attempts]

    def _forget(self) -> None:
        for attempt in self._each():
            attempt.stop()
        self._attempts.clear()
        self._binding = None
        self._accumulation = None

    def close(self) -> None:
        """End background work, also one that is being waited for; later steps run as they would now."""
        self._closed = True
        for attempt in self._each():
            if attempt.phase == "compiling":
                attempt.stop()
                attempt.phase = "refused"
