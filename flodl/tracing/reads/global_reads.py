"""Chains of attributes that a function reads from globals and from its class: found in its bytecode.

Globals, modules and classes cannot report who reads them, so the names are taken from the code:
`F.relu(x) * settings.scale` reads the chains ("F", "relu") and ("settings", "scale").
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, TypeAlias

from flodl.bytecode.decode import instructions
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import Instruction, Kind
from flodl.bytecode.operands import callee, operands
from flodl.errors import FlowError
from flodl.tracing.reads.guard_values import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Chain: TypeAlias = tuple[str, ...]

_PAST_HOOKS = frozenset(
    {("object", "__getattribute__"), ("inspect", "getattr_static"), ("getattr_static",)}
)
# The hook comes before them, and knows the attribute that they were asked for.
_PAST_HOOKS_BY_NATURE = frozenset({"__getattribute__", "__getattr__"})
_VARIABLES = frozenset({Kind.LOAD_GLOBAL, Kind.LOAD_CELL})
_LOADS = frozenset({Kind.LOAD_LOCAL, Kind.LOAD_CELL})
# `type(name, bases, members)` below an abstract class says that the new class is of the module `abc`.
_FOREIGN = frozenset(sys.stdlib_module_names) - {"__main__", "abc"} | {
    "torch", "flodl", "numpy", "einops", "functorch", "torchgen", "typing_extensions", "scipy",
}  # fmt: skip


def is_foreign(name: str | None) -> bool:
    """Return True for a module of Python, torch or a numeric library: its functions are not traced."""
    return (name or "builtins").partition(".")[0] in _FOREIGN


@kept_by_identity
def global_writes(code: CodeType) -> frozenset[str]:
    """Return the names of the globals that the code sets."""
    return frozenset(
        step.name
        for inner in _nested(code)
        for step in instructions(inner)
        if step.kind in (Kind.STORE_GLOBAL, Kind.DELETE_GLOBAL)
    )


@kept_by_identity
def global_reads(code: CodeType) -> tuple[Chain, ...]:
    """Return the chains that start at a global which the code does not itself set."""
    found: dict[Chain, None] = {}
    stored = global_writes(code)
    for inner in _nested(code):
        steps = _steps(inner)
        for position, step in enumerate(steps):
            if step.kind is Kind.LOAD_GLOBAL and step.name not in stored:
                found[step.name, *_attributes(steps, position + 1)] = None
    return tuple(found)


def require_same_globals(written: Iterable[tuple[FunctionType, str, object]]) -> None:
    """Require that a flow has set no global variable: later calls would not set it.

    Args:
        written: functions, the global that each of them sets, and its value before.

    Raises:
        FlowError: one has another value now.
    """
    for function, name, before in written:
        if function.__globals__.get(name, MISSING) is not before:
            code = function.__code__
            message = (
                f"{code.co_filename}:{code.co_firstlineno}: the flow sets the global `{name}`, and only "
                f"its trace would do so; set it in a step: call({function.__name__}, ...)"
            )
            raise FlowError(message)


@kept_by_identity
def is_given_to_steps(code: CodeType, name: str) -> bool:
    """Return True if a function only passes a variable on to steps: `call(print, x, file=out)`."""
    if any(
        name in (*inner.co_names, *inner.co_freevars)
        for inner in _nested(code)
        if inner is not code
    ):
        return False
    steps, taken = instructions(code), operands(code)
    loads = {at for at, step in enumerate(steps) if step.kind in _VARIABLES and step.name == name}
    for step, sources in zip(steps, taken, strict=True):
        if loads.isdisjoint(frozenset().union(*sources)):
            continue
        if step.kind is not Kind.CALL:
            return False
        called = callee(step, sources)
        if not loads.isdisjoint(called) or not {steps[at].name for at in called} & {
            "call",
            "through",
        }:
            return False
    return True


@kept_by_identity
def class_reads(code: CodeType, *, of_class: bool = False) -> tuple[tuple[Chain, Chain], ...]:
    """Return the reads of a method from the class of its first parameter, or of one of its attributes.

    `type(self.config).scale` and `self.config.__class__.scale` give `(("config",), ("scale",))`.

    Args:
        code: the code of the method.
        of_class: whether the first parameter is itself the class, as in a class method.
    """
    found: dict[tuple[Chain, Chain], None] = {}
    if not code.co_argcount:
        return ()
    for inner in _nested(code):
        steps = _steps(inner)
        for position, step in enumerate(steps):
            if step.kind in _LOADS and step.name == code.co_varnames[0]:
                names = _attributes(steps, position + 1)
                if of_class and names:
                    found[(), names] = None
                found |= dict.fromkeys(_of_class(steps, position, names))
    return tuple(found)


@kept_by_identity
def super_reads(code: CodeType) -> tuple[str, ...]:
    """Return the attributes that a method reads by `super().name`."""
    found: dict[str, None] = {}
    for inner in _nested(code):
        steps = _steps(inner)
        for position, step in enumerate(steps):
            if step.kind is Kind.LOAD_GLOBAL and step.name == "super":
                after = position + 1
                while after < len(steps) and steps[after].kind is not Kind.CALL:
                    after += 1
                found |= dict.fromkeys(_attributes(steps, after + 1)[:1])
    return tuple(found)


def _of_class(
    steps: list[Instruction], position: int, names: Chain
) -> Iterator[tuple[Chain, Chain]]:
    if "__class__" in names:
        place = names.index("__class__")
        yield names[:place], names[place + 1 :]
    after = position + 1 + len(names)
    before = steps[position - 1] if position else None
    if (
        before is not None
        and (before.kind, before.name) == (Kind.LOAD_GLOBAL, "type")
        and after < len(steps)
        and (steps[after].kind, steps[after].count) == (Kind.CALL, 1)
    ):
        yield names, _attributes(steps, after + 1)


def _attributes(steps: list[Instruction], start: int) -> Chain:
    names = []
    for step in steps[start:]:
        if step.kind is not Kind.LOAD_ATTR:
            break
        names.append(step.name)
    return tuple(names)


def _steps(code: CodeType) -> list[Instruction]:
    return [step for step in instructions(code) if step.kind is not Kind.PUSH_NULL]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)


def require_followed_reads(code: CodeType) -> None:
    """Refuse a function that reads attributes past the class of their object, where no hook is.

    Raises:
        FlowError: it does; the message names the line.
    """
    found = next((".".join(each) for each in global_reads(code) if each in _PAST_HOOKS), "")
    if {"super", "__getattribute__"} <= {*code.co_names}:
        found = "super().__getattribute__"
    if found and code.co_name not in _PAST_HOOKS_BY_NATURE:
        raise FlowError(
            f"{code.co_filename}:{code.co_firstlineno}: `{code.co_name}` reads attributes with `{found}`, "
            "past the class of the object, so a plan cannot notice that they changed; write "
            "getattr(object, name)"
        )
