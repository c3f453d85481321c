"""Functions that keep their results, while a flow is traced.

    @lru_cache
    def mask(n):
        return torch.ones(n, n).tril()

    def flow(self, x):
        return x @ mask(4)

`lru_cache` runs the lines of `mask` once and keeps the result for the whole program, so no proxy may get into
it. A flow therefore records nothing while those lines run: they compute as everywhere, and the plan holds the
tensor that they made. A call with a proxy, `mask(x.size(0))`, has no number to look up; the error names the
cure, `call(mask, x.size(0))`, which is a step and looks up the number of each call.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, final

from flodl.errors import FlowError
from flodl.tracing.call_inputs import Definition
from flodl.tracing.callsite import site_of

if TYPE_CHECKING:
    from types import FrameType

    from torch import nn

CACHED: Final = type(lru_cache(lambda: None))
# Every trace calls its flow here, so the frames above that are not of it.
_BEGIN: Final = Definition.call.__code__


@final
class CachedFunctions:
    """The functions below `lru_cache` that the trace of one module has found."""

    __slots__ = ("_module", "_names")

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._names: dict[CodeType, str] = {}

    def keeps(self, function: Any) -> bool:
        """Return True if a function keeps its results, and note it; its reads need no guards."""
        if not isinstance(function, CACHED) or not isinstance(function.__wrapped__, FunctionType):
            return False
        self._names[function.__wrapped__.__code__] = function.__wrapped__.__name__
        return True

    @property
    def has_any(self) -> bool:
        """Whether the flow may call such a function; its result may be that of one module alone."""
        return bool(self._names)

    def running(self) -> FrameType | None:
        """Return the frame of such a function if its lines run in this trace."""
        if not self._names:
            return None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in self._names:
                return frame
            if frame.f_code is _BEGIN and frame.f_locals["module"] is self._module:
                return None
            frame = frame.f_back
        return None

    def require_outside(self) -> None:
        """Refuse a step inside of such a function: its result would be kept as a proxy.

        Raises:
            FlowError: the lines of such a function run.
        """
        frame = self.running()
        if frame is not None:
            name = self._names[frame.f_code]
            raise FlowError(
                f"{site_of(frame.f_back)}: `{name}` keeps its results (functools.lru_cache), and would keep "
                f"a proxy of this flow; make its call one step: call({name}, ...)"
            )
