"""Loops: the same stage applied again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.errors import FlowError
from flodl.flow.callsite import call_site
from flodl.flow.stages import run_stage
from flodl.spec.graph import Literally

if TYPE_CHECKING:
    from flodl.flow.handle import Flow
    from flodl.flow.recorder import Recorder


@final
class LoopBody:
    """A loop that still needs its number of turns: `x.loop_body(stage).for_n(3)`."""

    def __init__(self, x: Flow, stage: Any) -> None:
        self._x = x
        self._stage = stage

    def for_n(self, n: int) -> Flow:
        """Apply the stage `n` times, each time to the result of the time before.

        Args:
            n: number of turns, at least 1.

        Raises:
            FlowError: `n` is smaller than 1.
        """
        if n < 1:
            message = f"{call_site()}: for_n({n}): a loop runs at least once"
            raise FlowError(message)
        recorder: Recorder = object.__getattribute__(self._x, "_recorder")
        stage = self._stage
        path = recorder.encoder.module_path(stage) if isinstance(stage, nn.Module) else None
        if path is None:
            value: Any = self._x
            for _ in range(n):
                value = run_stage(recorder, stage, value, (), {})
            result: Flow = value
            return result

        def repeat(value: Any, *_: Any) -> Any:
            for _turn in range(n):
                value = stage(value)
            return value

        name = path.replace(".", "_")
        loop: Flow = recorder.step(
            "loop", path, (self._x,), compute=repeat, name=name, extra=(Literally(n),)
        )
        return loop
