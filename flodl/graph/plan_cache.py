"""The recorded plans of one module: which one serves a call, and how a new one is made."""

from __future__ import annotations

import copy
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, final

from flodl import log
from flodl.errors import GraphError
from flodl.graph.compiled_plan import SPEC_KEY, CompiledPlan, compiled_text
from flodl.graph.instrumentation import Watch
from flodl.graph.observed import copied, is_paused, paused, twin_of
from flodl.graph.side_exits import SideExit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_PLANS = 64
MAX_PATHS = 512
_NOT_PORTABLE = (
    "the values of {name} cannot be seen in its first call with such inputs, because its plan holds "
    "objects of its own: call it once before"
)
_NOT_HELD = (
    "a copy of {name} takes other ways than the model itself with the same inputs, so its values cannot be "
    "seen in a first call: call it once before, with inputs like these"
)
# Threads that record together change one cache; a thread that only runs its plans takes no lock.
_lock = threading.RLock()
_STALE = "(AttributeError, LookupError, TypeError, ValueError)"


@final
class PlanCache:
    """All plans of one flow of one module, tried in the order they were recorded.

    Attributes:
        programs: the plans.
        names: the attributes of the module that some plan has read.
        watch: the taps on running plans.
        dispatch: `dispatch(module, *inputs)` runs the first plan that admits the call, else records one.
        dispatch_plainly: the same with ordinary module calls.
    """

    def __init__(
        self,
        record: Callable[..., Any],
        parameters: tuple[str, ...],
        record_bridge: Callable[..., tuple[CompiledPlan, Any]] | None = None,
    ) -> None:
        self._record = record
        self._record_bridge = record_bridge
        self._paths: dict[tuple[CompiledPlan, int, str], CompiledPlan] = {}
        self._resumed: dict[
            tuple[CompiledPlan, int], tuple[Callable[..., Any], Callable[..., Any]]
        ] = {}
        self._parameters = parameters
        self.programs: tuple[CompiledPlan, ...] = ()
        self.names: frozenset[str] = frozenset()
        self.watch = Watch()
        # The calls that a copy has recorded a plan for. One that comes here again would come without end.
        self._copied: set[tuple[int, ...]] = set()
        self.dispatch: Callable[..., Any] = record
        self.dispatch_plainly: Callable[..., Any] = record

    def add(self, program: CompiledPlan) -> None:
        """Add a plan; the oldest one goes when there are more than `MAX_PLANS`."""
        with _lock:
            self.programs = (*self.programs[-MAX_PLANS + 1 :], program)
            self.names |= program.names
            count = len(self.programs)
            self._rebuild()
        log.debug("plan %s of %s: %s nodes", count, program.title, len(program.spec.nodes))

    def clear(self) -> None:
        """Forget every plan; the next call records again."""
        if not self.programs:
            return  # Dynamo, which cannot enter a lock, comes here for an attribute that is set
        with _lock:
            self.programs = ()
            self._paths.clear()
            self._rebuild()

    def watched(self, watch: Watch) -> None:
        """Note something else from now on while the plans run."""
        with _lock:
            self.watch = watch
            self._rebuild()

    def _rebuild(self) -> None:
        self._resumed.clear()
        if not self.programs:
            self.dispatch = self.dispatch_plainly = self._record_or_copy()
            return
        runs, plain_runs = zip(*map(self._runs, self.programs), strict=True)
        if len(self.programs) == 1 and self.programs[0].code.accepts == "True":
            self.dispatch, self.dispatch_plainly = runs[0], plain_runs[0]
            return
        self.dispatch = self._dispatcher(runs)
        self.dispatch_plainly = self._dispatcher(plain_runs)

    def _runs(self, program: CompiledPlan) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the functions that run a plan to its end, whichever way it takes."""
        run, run_plainly = self.watch.runs(program)
        if program.spec.last_fork < 0:
            return run, run_plainly
        return self._followed(run, 0), self._followed(run_plainly, 1)

    def _followed(self, run: Callable[..., Any], form: int) -> Callable[..., Any]:
        def follow(module: Any, *inputs: Any) -> Any:
            result = run(module, *inputs)
            while type(result) is SideExit:
                result = self._go_on(result, module, inputs, form)
            return result

        return follow

    def _go_on(self, left: SideExit, module: Any, inputs: tuple[Any, ...], form: int) -> Any:
        """Continue after a side exit; a path that is new is recorded first."""
        program = self._paths.get(left.key)
        if program is None or not program.holds(module, left.program):
            assert self._record_bridge is not None, "only a recorded flow has ways to choose from"
            if len(self._paths) >= MAX_PATHS:
                with _lock:
                    self._paths.clear()
                    self._resumed.clear()
            if self.watch.values and not is_paused():
                return self._bridge_by_copy(left, module, inputs, form)
            program, result = self._record_bridge(module, inputs, left)
            self._add_path(left, program)
            if self.watch.profiler is not None:
                self.watch.profiler.forget()
            return result
        key = (program, left.node)
        runs = self._resumed.get(key)
        if runs is None:
            with _lock:
                runs = self._resumed[key] = self.watch.runs(program.resumed(left.node))
        return runs[form](module, *inputs, left.values)

    def _add_path(self, left: SideExit, program: CompiledPlan) -> None:
        with _lock:
            self._paths[left.key] = program
            self.names |= program.names
            self._resumed.pop((program, left.node), None)

    def _record_or_copy(self) -> Callable[..., Any]:
        return self._record_by_copy if self.watch.values else self._record

    def _record_by_copy(self, module: Any, *inputs: Any) -> Any:
        """Let a copy of the module record the plan that is missing, and run it under observation."""
        if is_paused():
            return self._record(module, *inputs)
        twin = twin_of(module)
        with paused():
            self._record(twin, *copied(inputs))
        theirs = twin._flodl_plans[self._key_in(module)].programs
        known = set(map(id, self.programs))
        new = [each for each in theirs if id(each) not in known and each.portable]
        if not new:
            raise GraphError(_NOT_PORTABLE.format(name=type(module).__name__))
        for program in new:
            self.add(program)
        call = (threading.get_ident(), id(module), *map(id, inputs))
        if call in self._copied:
            raise GraphError(_NOT_HELD.format(name=type(module).__name__))
        self._copied.add(call)
        try:
            return self.dispatch(module, *inputs)
        finally:
            self._copied.discard(call)

    def _bridge_by_copy(
        self, left: SideExit, module: Any, inputs: tuple[Any, ...], form: int
    ) -> Any:
        """Let a copy of the module record the way on, and go it under observation."""
        assert self._record_bridge is not None
        twin, away = twin_of(module), copy.copy(left)
        away.values = copied(left.values)
        with paused():
            program, _ = self._record_bridge(twin, copied(inputs), away)
        if not program.portable:
            raise GraphError(_NOT_PORTABLE.format(name=type(module).__name__))
        self._add_path(left, program)
        return self._go_on(left, module, inputs, form)

    def _key_in(self, module: Any) -> str:
        plans: dict[str, PlanCache] = module._flodl_plans
        return next(key for key, each in plans.items() if each is self)

    def _dispatcher(self, runs: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
        names = ", ".join(["self", *self._parameters])
        lines = [f"def dispatch({names}):"]
        namespace: dict[str, Any] = self.programs[-1].namespace()
        namespace["record"] = self._record_or_copy()
        for position, (program, run) in enumerate(zip(self.programs, runs, strict=True)):
            # Constants are named per program, so each guard keeps its own namespace.
            guard = _guard(program, names)
            namespace[f"plan_{position}"] = run
            if guard is None:
                condition = program.code.accepts
            else:
                namespace[f"admits_{position}"] = guard
                condition = f"admits_{position}({names})"
            if program.spec.checks:
                # A guard reads objects that may have lost an attribute or an item since.
                lines.append(f"    try:\n        admitted = {condition}")
                lines.append(f"    except {_STALE}:\n        admitted = False")
                condition = "admitted"
            lines.append(f"    if {condition}:")
            lines.append(f"        return plan_{position}({names})")
        lines.append(f"    return record({names})")
        # Only the generated forward itself may look like one to the error notes.
        namespace.pop(SPEC_KEY)
        # The text is made here, from checked names.
        exec(compiled_text("\n".join(lines)), namespace)
        dispatch = namespace["dispatch"]
        assert isinstance(dispatch, FunctionType)
        return dispatch


def _guard(program: CompiledPlan, names: str) -> Callable[..., bool] | None:
    """Return a guard function for a plan whose condition mentions its own constants, else None."""
    if not any(key in program.code.accepts for key in program.constants):
        return None
    return program.admission(names)
