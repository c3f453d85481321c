"""Functions made inside a flow: what they have taken from around them is theirs in every call anew.

A lambda or a nested function that reads a value of the graph cannot be a constant of the plan: it would
hold the value of the call that was recorded.  Handed to a step, it becomes a node of its own, which makes
the same function around the values of the call at hand.
"""

from __future__ import annotations

from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, Final, final

from flodl.errors import FlowError
from flodl.flow.callsite import call_site
from flodl.flow.handle import Flow
from flodl.flow.values import leaves, map_leaves

if TYPE_CHECKING:
    from flodl.flow.recorder import Recorder


@final
class _Itself:
    """Stands for the function among what it has taken: it calls itself."""


ITSELF: Final = _Itself()


def closure_of(
    code: FunctionType, taken: tuple[Any, ...], defaults: Any, named_defaults: Any
) -> FunctionType:
    """Return the function that `code` is, around other values.

    Args:
        code: the function whose text it is; its own cells are empty.
        taken: what is in its cells.
        defaults: the defaults of its positional parameters, if it has any.
        named_defaults: those of its keyword-only ones.
    """
    cells = tuple(CellType(value) for value in taken)
    made = FunctionType(code.__code__, code.__globals__, code.__name__, defaults, cells)
    for cell in cells:
        if cell.cell_contents is ITSELF:
            cell.cell_contents = made
    made.__kwdefaults__ = named_defaults
    made.__qualname__, made.__module__ = code.__qualname__, code.__module__
    made.__dict__.update(code.__dict__)
    return made


def holds_flow(value: Any, seen: tuple[Any, ...] = ()) -> bool:
    """Say whether a function has taken a value of the graph from around it."""
    if type(value) is partial:
        return _any_flow((value.func, *value.args, *value.keywords.values()), seen)
    if type(value) is not FunctionType or any(value is each for each in seen):
        return False
    kept = (_contents(value), value.__defaults__ or (), value.__kwdefaults__ or {})
    return any(kept) and _any_flow(kept, (*seen, value))


def _any_flow(values: tuple[Any, ...], seen: tuple[Any, ...]) -> bool:
    found = (leaf for value in values for leaf in leaves(value))
    return any(type(leaf) is Flow or holds_flow(leaf, seen) for leaf in found)


def _contents(function: FunctionType) -> tuple[Any, ...]:
    """Return what is in the cells of a function; a cell that is still empty has nothing to hold."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return tuple(found)


def lifted(recorder: Recorder, value: Any) -> Any:
    """Return a value with the flow of a new function for every function that holds a flow.

    Raises:
        FlowError: such a function cannot be made again.
    """
    return map_leaves(value, lambda leaf: _lift(recorder, leaf) if holds_flow(leaf) else leaf)


def _lift(recorder: Recorder, function: Any) -> Any:
    if type(function) is partial:
        return recorder.step(
            "function", recorder.encoder.callable_name(partial),
            (function.func, *function.args), function.keywords, compute=partial,
        )  # fmt: skip
    taken = tuple(ITSELF if each is function else each for each in _contents(function))
    names = function.__code__.co_freevars
    if len(taken) != len(names) or any(holds_flow(each, (function,)) and _meets(each, function)
                                       for each in taken):  # fmt: skip
        message = (
            f"{call_site()}: `{function.__name__}` is handed on before all that it uses is there; define "
            "it after that, or make it a method"
        )
        raise FlowError(message)
    template = FunctionType(
        function.__code__, function.__globals__, function.__name__, None,
        tuple(CellType() for _ in names),
    )  # fmt: skip
    template.__qualname__, template.__module__ = function.__qualname__, function.__module__
    template.__dict__.update(function.__dict__)
    args = (template, taken, function.__defaults__, function.__kwdefaults__)
    return recorder.step(
        "function", recorder.encoder.callable_name(closure_of), args, compute=closure_of
    )


def _meets(value: Any, function: FunctionType) -> bool:
    """Say whether a function has taken another one that has taken it."""
    return type(value) is FunctionType and any(
        each is function or (each is not value and _meets(each, function))
        for each in _contents(value)
    )
