"""Times of the submodules of a plain torch module, noted by hooks before and after each call."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.graph.profiling import MOST_WAITING, WARM_UP, cuda_event
from flodl.inspect.plain_tags import remove_hooks, submodule_at
from flodl.observe.profile import Clock, NodeStats, NodeTiming, Profile, ProfileStats

if TYPE_CHECKING:
    from torch import nn

_KEY = "_flodl_profiler"


@final
class _Calls:
    """The calls of one submodule in one forward; a call inside another one of its own adds no time."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = 0
        self.spans: list[tuple[Any, Any]] = []
        self._open: list[Any] = []

    def begin(self, mark: Any) -> None:
        self.count += 1
        self._open.append(mark)

    def end(self, mark: Any) -> None:
        if self._open:
            began = self._open.pop()
            if not self._open:
                self.spans.append((began, mark))


@final
class _Sums:
    """The times of one submodule in all forwards after warm-up."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = 0
        self.sum = 0.0
        self.least = float("inf")

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum += seconds
        self.least = min(self.least, seconds)


@final
class _Profiler:
    """The times of the last forward that ended, and sums over all; copies of the model have none."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.last: dict[str, _Calls] | None = None
        # The calls that lie within no other one but that of the model.
        self.outermost = _Calls("")
        self._running: dict[str, _Calls] | None = None
        self._waiting: deque[dict[str, _Calls]] = deque()
        self._sums: dict[str, _Sums] = {}
        self._passes = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> _Profiler:
        del memo
        return _Profiler(self.clock)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Profiler, (self.clock,))

    def begin(self, path: str, kind: str) -> None:
        """Note that a call begins; that of the model, whose path is empty, begins a forward."""
        if not path:
            self._running, self.outermost = {}, _Calls("")
        if self._running is not None:
            mark = self._mark()
            self._running.setdefault(path, _Calls(kind)).begin(mark)
            if path:
                self.outermost.begin(mark)

    def end(self, path: str) -> None:
        """Note that a call has ended."""
        if self._running is None or path not in self._running:
            return
        mark = self._mark()
        self._running[path].end(mark)
        if path:
            self.outermost.end(mark)
        else:
            self.last, self._running = self._running, None
            self._waiting.append(self.last)
            self._add_up(wait=False)

    def spans(self) -> dict[str, list[float]]:
        """Return the seconds of each call in the last forward, by path."""
        last = self.last or {}
        self._wait_for(last)
        return {path: self._seconds(calls) for path, calls in last.items()}

    def within_submodules(self) -> float:
        """Return the seconds of the last forward within calls of submodules, each moment once."""
        self._wait_for(self.last or {})
        return sum(self._seconds(self.outermost))

    def stats(self) -> ProfileStats | None:
        """Return minimum and mean per submodule, `None` before a forward after warm-up."""
        self._add_up(wait=True)
        if self._passes <= WARM_UP:
            return None
        nodes = tuple(
            NodeStats(
                id=path,
                index=index,
                tags=(),
                level=path.count("."),
                passes=sums.count,
                min=sums.least,
                mean=sums.sum / sums.count,
                kind=sums.kind,
            )
            for index, (path, sums) in enumerate(self._sums.items())
            if path
        )
        whole = self._sums[""]
        return ProfileStats(
            nodes=nodes,
            passes=self._passes - WARM_UP,
            warm_up=WARM_UP,
            clock=self.clock,
            total=whole.sum / whole.count,
        )

    def _mark(self) -> Any:
        return time.perf_counter() if self.clock == "host" else cuda_event()

    def _wait_for(self, calls: dict[str, _Calls]) -> None:
        if self.clock != "host" and calls:
            calls[""].spans[-1][1].synchronize()

    def _seconds(self, calls: _Calls) -> list[float]:
        if self.clock == "host":
            return [after - before for before, after in calls.spans]
        return [before.elapsed_time(after) / 1e3 for before, after in calls.spans]

    def _add_up(self, *, wait: bool) -> None:
        """Add up the forwards that have ended; without `wait`, those that the device has finished."""
        while self._waiting:
            calls = self._waiting[0]
            must_wait = wait or len(self._waiting) > MOST_WAITING
            if self.clock != "host" and not must_wait and not calls[""].spans[-1][1].query():
                return
            self._wait_for(calls)
            self._waiting.popleft()
            self._passes += 1
            if self._passes > WARM_UP:
                for path, each in calls.items():
                    self._sums.setdefault(path, _Sums(each.kind)).add(sum(self._seconds(each)))


@final
class _Before:
    """The hook before a call."""

    def __init__(self, profiler: _Profiler, path: str) -> None:
        self.profiler = profiler
        self.path = path

    def __call__(self, module: nn.Module, _inputs: Any) -> None:
        # A time is nothing that a compiled graph could note.
        if not torch.compiler.is_compiling():
            self.profiler.begin(self.path, type(module).__name__)


@final
class _After:
    """The hook after a call."""

    def __init__(self, profiler: _Profiler, path: str) -> None:
        self.profiler = profiler
        self.path = path

    def __call__(self, _module: nn.Module, _inputs: Any, _output: Any) -> None:
        if not torch.compiler.is_compiling():
            self.profiler.end(self.path)


def enable(module: nn.Module, clock: Clock) -> None:
    """Time every call of every submodule from now on.

    Args:
        module: a plain module.
        clock: which clock is read.
    """
    disable(module)
    profiler = vars(module)[_KEY] = _Profiler(clock)
    for path, each in module.named_modules():
        if isinstance(each, torch.jit.ScriptModule):
            continue  # takes no hooks; its time is part of the one around it
        each.register_forward_pre_hook(_Before(profiler, path))
        # First, so that the time of other hooks does not count.
        each.register_forward_hook(_After(profiler, path), prepend=True)


def disable(module: nn.Module) -> None:
    """Remove all hooks, and forget the last profile.

    Args:
        module: a plain module.
    """
    profiler = vars(module).pop(_KEY, None)
    if profiler is not None:
        for each in module.modules():
            remove_hooks(
                each, lambda hook: isinstance(hook, _Before | _After) and hook.profiler is profiler
            )


def is_enabled(module: nn.Module) -> bool:
    """Return True if forwards are timed.

    Args:
        module: a plain module.
    """
    return _KEY in vars(module)


def profile(module: nn.Module) -> Profile | None:
    """Return the times of the last forward that ended, one row per submodule that it called.

    Rows are nested, so the total is the time of the whole call and not their sum.

    Args:
        module: a plain module.
    """
    profiler: _Profiler | None = vars(module).get(_KEY)
    if profiler is None or profiler.last is None:
        return None
    spans = profiler.spans()
    nodes = tuple(
        NodeTiming(
            id=path,
            index=index,
            tags=(),
            duration=sum(spans[path]),
            level=path.count("."),
            kind=calls.kind,
            calls=calls.count,
        )
        for index, (path, calls) in enumerate(profiler.last.items())
        if path
    )
    return Profile(total=sum(spans[""]), nodes=nodes, clock=profiler.clock, is_nested=True)


def stats(module: nn.Module) -> ProfileStats | None:
    """Return minimum and mean per submodule; `None` before the fourth forward.

    Args:
        module: a plain module.
    """
    profiler: _Profiler | None = vars(module).get(_KEY)
    return None if profiler is None else profiler.stats()


def spans(module: nn.Module) -> dict[str, list[float]]:
    """Return the seconds of every call in the last forward, by path; the empty path is the model.

    Args:
        module: a plain module.
    """
    profiler: _Profiler | None = vars(module).get(_KEY)
    return {} if profiler is None else profiler.spans()


def within_submodules(module: nn.Module) -> float:
    """Return the seconds of the last forward that passed within calls of submodules.

    Args:
        module: a module whose submodules are being timed.
    """
    profiler: _Profiler = vars(module)[_KEY]
    return profiler.within_submodules()


def began(module: nn.Module) -> Any:
    """Return what the clock gave when the last forward that has ended was called.

    Args:
        module: a module whose submodules are being timed.
    """
    profiler: _Profiler = vars(module)[_KEY]
    assert profiler.last is not None, "a forward has ended"
    return profiler.last[""].spans[0][0]


def timing(module: nn.Module, path: str) -> float | None:
    """Return the seconds of a submodule in the last forward; `None` if it was not called.

    Args:
        module: a plain module.
        path: its dotted path.

    Raises:
        UnknownNameError: there is no such submodule.
    """
    wanted = submodule_at(module, path)
    found = profile(module)
    # A submodule that has several paths has the row of the first one.
    first = next(name for name, each in module.named_modules() if each is wanted)
    return None if found is None else found.timing(first)
