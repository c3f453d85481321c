"""Variables of a method that are surely lists, dicts, texts and the like which the method itself makes.

    groups = {}                     # a display
    for key, part in items.items():
        groups.setdefault(key, []).append(part)   # a method of one, and of an element of one

Their methods are Python's own, so a flow may run them while it is traced. A method of anything else runs
code that is not known, and has to be a step.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from fdl_cli.porter.knowledge.python_names import CONTAINER_METHODS, CONTAINER_TYPES
from fdl_cli.porter.lower.names import FunctionNode

_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp,
             ast.GeneratorExp, ast.JoinedStr, ast.Constant)  # fmt: skip
# A variable that is bound, and to what: nothing where that is not an expression.
_Binding = tuple[str, ast.expr | None]


@final
@dataclass(frozen=True, slots=True)
class _Method:
    """The bindings of a method: lines and values by variable, and the extent of its loops."""

    bindings: Mapping[str, tuple[tuple[int, ast.expr | None], ...]]
    loops: tuple[tuple[int, int], ...]

    def at(self, name: str, line: int) -> list[tuple[int, ast.expr | None]]:
        """Return the bindings that a variable may have on a line: earlier ones, or of another turn."""
        around = [(first, last) for first, last in self.loops if first <= line <= last]
        return [
            (where, value)
            for where, value in self.bindings.get(name, ())
            if where <= line or any(first <= where <= last for first, last in around)
        ]


def is_local_container(method: FunctionNode, name: str, line: int) -> bool:
    """Return True if a variable is a container, or an element of one, on a line of a method."""
    return _is_bound_to_container(_read(method), name, line, frozenset())


def _is_bound_to_container(
    method: _Method, name: str, line: int, seen: frozenset[tuple[str, int]]
) -> bool:
    if (name, line) in seen:
        return True
    found = method.at(name, line)
    inside = seen | {(name, line)}
    return bool(found) and all(_is_container(method, v, at, inside) for at, v in found)


def _is_container(
    method: _Method, value: ast.expr | None, line: int, seen: frozenset[tuple[str, int]]
) -> bool:
    match value:
        case None:
            return False
        case ast.Name(id=name):
            return _is_bound_to_container(method, name, line, seen)
        case ast.Subscript(value=owner) | ast.Starred(value=owner):
            return _is_container(method, owner, line, seen)
        case ast.IfExp(body=first, orelse=second) | ast.BinOp(left=first, right=second):
            both = (_is_container(method, each, line, seen) for each in (first, second))
            return all(both)
        case ast.BoolOp(values=values):
            return all(_is_container(method, each, line, seen) for each in values)
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)) if (
            name in CONTAINER_TYPES
        ):
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name in CONTAINER_METHODS and _is_container(method, owner, line, seen)
        case _:
            return isinstance(value, _DISPLAYS)


@lru_cache(maxsize=256)
def _read(method: FunctionNode) -> _Method:
    found: dict[str, list[tuple[int, ast.expr | None]]] = {}
    for line, (name, value) in _bindings(method):
        found.setdefault(name, []).append((line, value))
    arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
    for argument in arguments:
        found.setdefault(argument.arg, []).append((method.lineno, None))
    loops = (each for each in ast.walk(method) if isinstance(each, ast.For | ast.While))
    return _Method(
        {name: tuple(values) for name, values in found.items()},
        tuple((each.lineno, each.end_lineno or each.lineno) for each in loops),
    )


def _bindings(method: FunctionNode) -> Iterator[tuple[int, _Binding]]:
    for node in ast.walk(method):
        match node:
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from ((target.lineno, each) for each in _elements(target, value))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from ((node.lineno, each) for each in _bound(target, value))
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.AugAssign(target=target, value=value)
            ):
                yield from ((node.lineno, each) for each in _bound(target, value))
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from ((target.lineno, each) for each in _bound(target, None))
            case _:
                pass


def _bound(target: ast.expr, value: ast.expr | None) -> Iterator[_Binding]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *parts))
        if len(parts) == len(target.elts) and not starred:
            for one, part in zip(target.elts, parts, strict=True):
                yield from _bound(one, part)
        else:
            yield from _elements(target, value)


def _elements(target: ast.expr, value: ast.expr | None) -> Iterator[_Binding]:
    """Yield the names of a target with their values when it is bound to every element."""
    match target, value:
        case _, ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _bound(target, part)
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=given):
            for one, each in zip(targets, given, strict=False):
                yield from _elements(one, each)
        case ast.Tuple(elts=[count, one]), ast.Call(
            func=ast.Name(id="enumerate"), args=[each, *_]
        ):
            yield from _bound(count, ast.Constant(value=0))
            yield from _elements(one, each)
        case _:
            # The items of a container may be anything: only its container methods are known.
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, value
