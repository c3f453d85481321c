"""Lists, tuples and dicts of inputs, as a flow gets them: ordinary ones that also know `through`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from flodl.flow.stages import Stage


def _through(value: Any, stage: Stage, extra: tuple[Any, ...], named: dict[str, Any]) -> Any:
    from flodl.flow.recorder import current_recorder
    from flodl.flow.stages import run_stage

    recorder = current_recorder()
    assert recorder is not None
    return run_stage(recorder, stage, value, extra, named)


@final
class FlowList(list[Any]):
    """A list that was passed to a flow."""

    def through(self, stage: Stage, *extra: Any, **named: Any) -> Any:
        """Pass the whole list to a stage: `stage(values, *extra, **named)`."""
        return _through(self, stage, extra, named)


@final
class FlowTuple(tuple[Any, ...]):
    """A tuple that was passed to a flow."""

    __slots__ = ()

    def through(self, stage: Stage, *extra: Any, **named: Any) -> Any:
        """Pass the whole tuple to a stage: `stage(values, *extra, **named)`."""
        return _through(self, stage, extra, named)


@final
class FlowDict(dict[Any, Any]):
    """A dict that was passed to a flow."""

    def through(self, stage: Stage, *extra: Any, **named: Any) -> Any:
        """Pass the whole dict to a stage: `stage(values, *extra, **named)`."""
        return _through(self, stage, extra, named)


TUPLES = (tuple, FlowTuple)
LISTS = (list, FlowList)
DICTS = (dict, FlowDict)
