"""What a flow reads besides its inputs: values inside attributes, globals, how many layers a list has.

A plan holds only while those are what they were when it was recorded, so each becomes a condition.
Plain attributes of the module itself need none: setting one forgets the plans.
"""

from __future__ import annotations

import inspect
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.bytecode.decode import instructions
from flodl.bytecode.instruction import Kind
from flodl.tracing.purity import methods_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flodl.tracing.node_args import Encoder

_FOREIGN = ("torch", "flodl", "math", "numpy", "operator", "functools", "itertools", "einops",
            "typing", "collections", "random", "os", "sys", "warnings", "logging")  # fmt: skip
_MOST_ITEMS = 32
_MISSING = object()


@final
@dataclass(frozen=True, slots=True)
class Chain:
    """One read: a name of the object (`root` is None) or of a module, and the attributes after it."""

    root: ModuleType | None
    names: tuple[str, ...]
    function: FunctionType


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """What one read found, as a condition on the text of what it reads."""

    root: ModuleType | None
    condition: str
    function: FunctionType


def look(module: nn.Module, function: Any, live: frozenset[str]) -> list[Seen]:
    """Return what the flow of a module would read now; attributes in `live` are read at every call."""
    found = []
    kind: type = type(module)
    for chain in chains(inspect.unwrap(function), kind):
        if chain.root is None and chain.names[0] in live:
            continue
        condition = _condition(module, chain)
        if condition:
            found.append(Seen(chain.root, condition, chain.function))
    return found


def checks_of(seen: list[Seen], encoder: Encoder) -> Iterator[str]:
    """Yield the conditions of a recorded flow; functions that became nodes read anew at every call."""
    nodes = {id(value) for value in encoder.constants.values()}
    for each in seen:
        if id(each.function) in nodes:
            continue
        name = "self"
        if each.root is not None:
            name = encoder.constant(each.root, each.root.__name__.rpartition(".")[2]).key
        yield each.condition.replace("$", name)


@lru_cache(maxsize=4096)
def chains(function: Any, owner: type) -> tuple[Chain, ...]:
    """Return every chain of attributes that a flow, or what it calls of the same program, reads."""
    found: dict[Chain, None] = {}
    seen: set[CodeType] = set()
    queue = [(function, True)]
    while queue:
        current, is_method = queue.pop(0)
        code = current.__code__ if isinstance(current, FunctionType) else None
        if code is None or code in seen:
            continue
        seen.add(code)
        for inner in _nested(code):
            found |= dict.fromkeys(_chains(inner, code, current, is_method=is_method))
            for name in inner.co_names:
                if is_method:
                    queue += [(each, True) for each in methods_by_name(name, owner)]
                called = current.__globals__.get(name)
                if isinstance(called, FunctionType) and not _is_foreign(called.__module__):
                    queue.append((called, False))
    return tuple(found)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)


def _chains(
    code: CodeType, outer: CodeType, function: FunctionType, *, is_method: bool
) -> Iterator[Chain]:
    own = outer.co_varnames[0] if is_method and outer.co_argcount else ""
    home = sys.modules.get(function.__module__)
    if home is None or vars(home) is not function.__globals__:
        home = None
    steps = instructions(code)
    stored = {step.name for step in steps if step.kind is Kind.STORE_GLOBAL}
    for position, step in enumerate(steps):
        names = []
        for after, behind in pairwise(steps[position + 1 :]):
            # A method is called, not read: its name is no part of the chain.
            if after.kind is not Kind.LOAD_ATTR or behind.kind is Kind.PUSH_NULL:
                break
            names.append(after.name)
        if step.kind in (Kind.LOAD_LOCAL, Kind.LOAD_CELL) and step.name == own and names:
            yield Chain(None, tuple(names), function)
        elif (
            step.kind is Kind.LOAD_GLOBAL
            and home is not None
            and step.name not in stored
            and step.name in function.__globals__
        ):
            yield Chain(home, (step.name, *names), function)


def _condition(module: nn.Module, chain: Chain) -> str:
    """Return the condition on what a chain reads now, with `$` for its root; empty if there is none."""
    value: Any = module if chain.root is None else chain.root
    text = "$"
    for depth, name in enumerate(chain.names):
        is_child = isinstance(value, nn.Module) and name in value._modules
        text += f"._modules[{name!r}]" if is_child else f".{name}"
        value = _plain_read(value, name)
        if value is _MISSING or (isinstance(value, ModuleType) and _is_foreign(value.__name__)):
            return ""
        known = _literal(value)
        direct = chain.root is None and depth == 0
        if direct and not isinstance(value, (list, dict, set)):
            known = ""
        if known:
            identity = value is None or isinstance(value, bool)
            return f"{text} {'is' if identity else '=='} {known}"
    if isinstance(value, (nn.ModuleList, nn.ModuleDict)):
        return f"len({text}._modules) == {len(value._modules)}"
    return ""


def _plain_read(owner: Any, name: str) -> Any:
    """Read an attribute without running code of the user, which could have effects."""
    if isinstance(owner, nn.Module):
        for table in (vars(owner), owner._modules):
            if name in table:
                return table[name]
    elif name in getattr(owner, "__dict__", ()):
        return vars(owner)[name]
    elif isinstance(owner, dict):  # a configuration whose keys are attributes
        return owner.get(name, _MISSING)
    else:
        found = (vars(kind)[name] for kind in type(owner).__mro__ if name in vars(kind))
        value = next(found, _MISSING)
        return value if _literal(value) else _MISSING
    return _MISSING


def _literal(value: Any, most: int = _MOST_ITEMS) -> str:
    """Return the source of a plain value, or nothing for a value that has none or is too large."""
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else ""
    if kind not in (list, tuple, dict, set) or len(value) > most or (kind is set and not value):
        return ""
    parts = [*value, *value.values()] if kind is dict else list(value)
    return repr(value) if all(_literal(part, most // 2) for part in parts) else ""


def _is_foreign(name: str | None) -> bool:
    return (name or "").partition(".")[0] in _FOREIGN
