"""Loops: the same stage applied again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.errors import FlowError
from flodl.ir.graph import Literally
from flodl.nodes.looping import loop_for
from flodl.tracing.callsite import call_site
from flodl.tracing.flow_value import is_flow
from flodl.vocabulary.at_once import run_at_once
from flodl.vocabulary.control_flow import halting_loop, node, whole
from flodl.vocabulary.stages import run_stage

if TYPE_CHECKING:
    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


@final
class Loop:
    """A loop that still needs to know when it ends: `x.loop_body(stage).for_n(3)`."""

    def __init__(
        self,
        x: Flow,
        stage: Any,
        refs: dict[str, Any] | None = None,
        extra: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> None:
        """Take the stream, the stage, tagged values for it, and further arguments of every turn."""
        self._x = x
        self._stage = stage
        self._refs = refs or {}
        self._extra = extra
        self._named = named or {}

    def while_cond(self, halt: Any, limit: int, *, per_sample: bool = False) -> Flow:
        """Apply the stage until `halt` is positive, checked before each turn, at most `limit` times.

        Args:
            halt: a stage whose output is positive where the loop should stop.
            limit: most turns, at least 1.
            per_sample: every sample of the batch stops on its own, instead of the first for all.
        """
        self._refuse_context("while_cond")
        return halting_loop(
            self._x, self._stage, halt, limit, "while", per_sample=per_sample, refs=self._refs
        )

    def until_cond(self, halt: Any, limit: int, *, per_sample: bool = False) -> Flow:
        """Apply the stage until `halt` is positive, checked after each turn, at most `limit` times.

        Args:
            halt: a stage whose output is positive where the loop should stop.
            limit: most turns, at least 1.
            per_sample: every sample of the batch stops on its own, instead of the first for all.
        """
        self._refuse_context("until_cond")
        return halting_loop(
            self._x, self._stage, halt, limit, "until", per_sample=per_sample, refs=self._refs
        )

    def for_n(self, n: int) -> Flow:
        """Apply the stage `n` times, each time to the result of the time before.

        Args:
            n: number of turns; with 0 the value stays what it is.

        Raises:
            FlowError: `n` is negative, or no whole number.
        """
        n = whole(n, "for_n")
        if n < 0:
            message = f"{call_site()}: for_n({n}): a loop cannot run a negative number of times"
            raise FlowError(message)
        stage = self._stage
        if n == 0:
            return self._x
        if not is_flow(self._x):
            value: Flow = self._at_once(n)
            return value
        tracer: Tracer = object.__getattribute__(self._x, "_tracer")
        if self._extra or self._named:
            return self._unrolled(tracer, n)
        if self._refs or (isinstance(stage, nn.Module) and "reset" in dir(type(stage))):
            looped: Flow = node(self._x, loop_for, stage, n, self._refs)
            return looped
        path = tracer.encoder.module_path(stage) if isinstance(stage, nn.Module) else None
        if path is None:
            return self._unrolled(tracer, n)

        def repeat(value: Any, *_: Any) -> Any:
            for _turn in range(n):
                value = stage(value)
            return value

        name = path.replace(".", "_")
        loop: Flow = tracer.step(
            "loop", path, (self._x,), compute=repeat, name=name, extra=(Literally(n),)
        )
        return loop

    def _at_once(self, n: int) -> Any:
        """Loop over a plain value, under a tool that traces the module."""
        stage = self._stage
        if self._refs or (isinstance(stage, nn.Module) and "reset" in dir(type(stage))):
            return loop_for(self._x, stage, n, self._refs)
        value: Any = self._x
        for _ in range(n):
            value = run_at_once(stage, value, self._extra, self._named)
        return value

    def _unrolled(self, tracer: Tracer, n: int) -> Flow:
        value: Any = self._x
        for _ in range(n):
            value = run_stage(tracer, self._stage, value, self._extra, self._named)
        result: Flow = value
        return result

    def _refuse_context(self, word: str) -> None:
        if self._extra or self._named:
            message = (
                f"{call_site()}: loop_body(stage, ...) with further arguments ends with for_n; for "
                f"{word} tag the values and give the stage `forward_named`"
            )
            raise FlowError(message)
