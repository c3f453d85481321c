"""Lists, tuples and dicts of inputs, as a flow gets them: they know `through` and write to the caller's."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, final

from flodl.errors import FlowError
from flodl.tracing.active import current_tracer
from flodl.tracing.callsite import call_site

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer
    from flodl.vocabulary.stages import Stage


def _through(value: Any, stage: Stage, extra: tuple[Any, ...], named: dict[str, Any]) -> Any:
    tracer = current_tracer()
    assert tracer is not None
    return tracer.through(stage, value, extra, named)


@final
class Origin:
    """The origin of a container of an input: writes to it must reach the caller's object."""

    def __init__(self, tracer: Tracer, expression: str, value: Any) -> None:
        self._tracer = weakref.ref(tracer)
        self._expression = expression
        self._value = value
        self.flow: Flow | None = None

    def written(self) -> Flow:
        """Return the container as one value of the recording, for a step that changes it."""
        if self.flow is None:
            tracer = self._tracer()
            if tracer is None or not tracer.listening:
                raise FlowError(
                    "a container of an input was changed outside the flow it was passed to"
                )
            self.flow = tracer.input(self._expression, self._value, type(self._value))
        return self.flow

    def refuse(self, what: str) -> FlowError:
        """Return the error for a change that no step describes."""
        kind = type(self._value).__name__
        return FlowError(
            f"{call_site()}: `{what}` changes the {kind} that the caller passed as `{self._expression}`; "
            f"change a copy, {kind}({self._expression}), or keep the part as a callable: x.through(function)"
        )


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: FlowList, *_: Any, **__: Any) -> Any:
        if self.origin is None:
            return getattr(super(type(self), self), name)(*_, **__)
        raise self.origin.refuse(name)

    refuse.__name__ = name
    return refuse


def _mirrored(name: str, step: str = "") -> Callable[..., Any]:
    """Return a method that changes the caller's container and the flow's, at this place in every call."""

    def change(self: FlowList | FlowDict, *args: Any, **named: Any) -> Any:
        if name in ("extend", "__iadd__"):
            args = (list(*args),)
        if self.origin is not None:
            _hold_parts(self)
            getattr(self.origin.written(), step or name)(*args, **named)
        return getattr(super(type(self), self), name)(*args, **named)

    change.__name__ = name
    return change


def _hold_parts(container: FlowList | FlowDict) -> None:
    """Read the containers inside before their places change: they may be written to later."""
    for each in container.values() if type(container) is FlowDict else container:
        if type(each) in (FlowList, FlowDict) and each.origin is not None:
            each.origin.written()


@final
class FlowList(list[Any]):
    """A list that was passed to a flow."""

    origin: Origin | None = None
    __class__ = property(lambda _: list)

    def through(self, stage: Stage, /, *extra: Any, **named: Any) -> Any:
        """Pass the whole list to a stage: `stage(values, *extra, **named)`."""
        return _through(self, stage, extra, named)

    def append(self, value: Any) -> None:
        """Append to the caller's list, at this place in every call."""
        if self.origin is not None:
            self.origin.written().append(value)
        super().append(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.origin is not None:
            _hold_parts(self)
            self.origin.written()[index] = value
        super().__setitem__(index, value)


@final
class FlowTuple(tuple[Any, ...]):
    """A tuple that was passed to a flow."""

    __slots__ = ()
    __class__ = property(lambda _: tuple)

    def through(self, stage: Stage, /, *extra: Any, **named: Any) -> Any:
        """Pass the whole tuple to a stage: `stage(values, *extra, **named)`."""
        return _through(self, stage, extra, named)


@final
class FlowDict(dict[Any, Any]):
    """A dict that was passed to a flow."""

    origin: Origin | None = None
    __class__ = property(lambda _: dict)

    def through(self, stage: Stage, /, *extra: Any, **named: Any) -> Any:
        """Pass the whole dict to a stage: `stage(values, *extra, **named)`."""
        return _through(self, stage, extra, named)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.origin is not None:
            _hold_parts(self)
            self.origin.written()[key] = value
        super().__setitem__(key, value)

    def update(self, *args: Any, **named: Any) -> None:
        """Set several items of the caller's dict, at this place in every call."""
        for key, value in dict(*args, **named).items():
            self[key] = value


for _name in ("extend", "insert", "pop", "clear", "reverse", "__delitem__"):
    setattr(FlowList, _name, _mirrored(_name))
for _name in ("pop", "popitem", "clear", "setdefault", "__delitem__"):
    setattr(FlowDict, _name, _mirrored(_name))
for _kind, _name, _step in ((FlowList, "__iadd__", "extend"), (FlowDict, "__ior__", "update")):
    setattr(_kind, _name, _mirrored(_name, _step))
for _name in ("remove", "sort", "__imul__"):
    setattr(FlowList, _name, _refusing(_name))


def written_flow(value: Any) -> Flow | None:
    """Return the caller's container as one value, if the flow has written to it."""
    if type(value) not in (FlowList, FlowDict) or value.origin is None:
        return None
    found: Flow | None = value.origin.flow
    return found


def origin_of(value: Any) -> Origin | None:
    """Return where a container comes from, if it is one of an input."""
    found: Origin | None = value.origin if type(value) in (FlowList, FlowDict) else None
    return found


TUPLES = (tuple, FlowTuple)
LISTS = (list, FlowList)
DICTS = (dict, FlowDict)
