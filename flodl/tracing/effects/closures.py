"""Functions made inside a flow: every call makes them again, around the variables of that call.

A lambda or a nested function that reads a variable of the flow cannot be a constant of the plan: it would
keep the recorded value of the variable. Passed to a step, it becomes nodes, which make the same function
around the same variables of the call at hand. A variable that functions share is a cell, as in Python: when
the flow has changed it, those that are called later see that.
"""

from __future__ import annotations

import gc
import weakref
from functools import partial
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, final

from flodl.bytecode.decode import instructions
from flodl.bytecode.instruction import Kind
from flodl.errors import FlowError
from flodl.tracing.callsite import call_site
from flodl.tracing.effects.object_mutation import is_held_outside
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import leaves, map_leaves

if TYPE_CHECKING:
    from flodl.tracing.tracer import Tracer


@final
class _Empty:
    """The content of a variable that has no value yet."""


EMPTY = _Empty()


def closure_of(
    text: FunctionType, cells: tuple[CellType, ...], defaults: Any, named_defaults: Any
) -> FunctionType:
    """Return a function with the text of another one, around other variables.

    Args:
        text: the function whose text it gets.
        cells: the variables that it reads from around it.
        defaults: the defaults of its positional parameters, if it has any.
        named_defaults: those of its keyword-only ones.
    """
    made = FunctionType(text.__code__, text.__globals__, text.__name__, defaults, cells)
    made.__kwdefaults__ = named_defaults
    made.__qualname__, made.__module__ = text.__qualname__, text.__module__
    made.__dict__.update(text.__dict__)
    return made


@final
class Closures:
    """The functions of one recording that have taken variables of the flow."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer_of = weakref.ref(tracer)  # it owns us: a cycle would keep weights alive
        self._cells: dict[int, tuple[CellType, Flow]] = {}
        self._contents: dict[int, Any] = {}
        self._blanks: list[FunctionType] = []

    @property
    def _tracer(self) -> Tracer:
        tracer = self._tracer_of()
        assert tracer is not None
        return tracer

    def release(self) -> None:
        """Let go of every variable."""
        self._cells.clear()
        self._contents.clear()
        self._blanks.clear()

    def lifted(self, value: Any) -> Any:
        """Return a value with the flow of a new function in the place of every closure.

        Raises:
            FlowError: such a function sets a variable of the flow.
        """
        return map_leaves(value, self._leaf)

    def is_lifted(self, value: Any) -> bool:
        """Return True if a value is a function that has taken more from around it than the module."""
        if type(value) is partial:
            inside = (value.func, *value.args, *value.keywords.values())
            found = (leaf for each in inside for leaf in leaves(each))
            return any(type(leaf) is Flow or self.is_lifted(leaf) for leaf in found)
        if type(value) is not FunctionType or any(value is each for each in self._blanks):
            return False
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if any(type(leaf) is Flow for each in defaults for leaf in leaves(each)):
            return True
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        taken = (content_of(cell) for name, cell in cells if name != "__class__")
        return any(each is not self._tracer.module for each in taken)

    def settle(self) -> None:
        """Record the last values of the flow's variables: any owner of a function sees them."""
        for cell, _ in list(self._cells.values()):
            self._cell(cell)

    def _leaf(self, leaf: Any) -> Any:
        if not self.is_lifted(leaf):
            return leaf
        tracer = self._tracer
        if type(leaf) is partial:
            name = tracer.encoder.callable_name(partial)
            args = (leaf.func, *leaf.args)
            return tracer.step("function", name, args, leaf.keywords, compute=partial)
        code = leaf.__code__
        if any(
            step.kind in (Kind.STORE_CELL, Kind.DELETE_CELL) and step.name in code.co_freevars
            for step in instructions(code)
        ):
            if not gc.get_freeze_count() and is_held_outside(leaf, (self._cells, self._blanks)):
                # A module or layer has it, so it was made before: its variables are none of the flow's.
                return leaf
            message = (
                f"{call_site()}: `{leaf.__name__}` sets a variable of the flow and is handed on; let it "
                "return the value instead"
            )
            raise FlowError(message)
        cells = tuple(self._cell(cell) for cell in leaf.__closure__ or ())
        blank = closure_of(leaf, tuple(CellType() for _ in cells), None, None)
        self._blanks.append(blank)
        name = tracer.encoder.callable_name(closure_of)
        args = (blank, cells, leaf.__defaults__, leaf.__kwdefaults__)
        return tracer.step("function", name, args, compute=closure_of)

    def _cell(self, cell: CellType) -> Flow:
        """Return the variable of the call at hand that a variable of the recording stands for."""
        tracer = self._tracer
        if id(cell) not in self._cells:
            name = tracer.encoder.callable_name(CellType)
            self._cells[id(cell)] = cell, tracer.step("function", name, (), compute=CellType)
            self._contents[id(cell)] = EMPTY
        flow = self._cells[id(cell)][1]
        content = content_of(cell)
        if content is not self._contents[id(cell)] and content is not EMPTY:
            # Noted first: a function may be in a variable which it has taken itself.
            self._contents[id(cell)] = content
            tracer.step("setattr", "cell_contents", (flow, content), compute=_fill)
        return flow


def content_of(cell: CellType) -> Any:
    """Return the content of a variable, or `EMPTY`."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _fill(cell: CellType, content: Any) -> None:
    cell.cell_contents = content
