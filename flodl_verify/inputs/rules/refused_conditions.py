"""Changes of constructor arguments that fulfil a condition for which a model refused them.

`assert config.e_layers == config.d_layers`, `if dim % heads: raise ...`, `if task == "b": raise ...`
say in the code itself what would be accepted.
"""

from __future__ import annotations

import ast
import copy
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from flodl_verify.inputs.rules.asked_arguments import own_parameters
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sources.class_sources import module_node
from flodl_verify.sources.written_settings import Settings

_NOTHING = object()
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq, ast.Eq: ast.NotEq, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE,
    ast.GtE: ast.Lt, ast.NotIn: ast.In, ast.In: ast.NotIn,
}  # fmt: skip
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip


def accepted(made: type, given: Mapping[str, object], line: int | None) -> dict[str, object]:
    """Return another value for one given argument with which the condition on a line would hold.

    Arguments go by their names, those of the attributes that keep them, and those of settings.
    """
    tree = module_node(made)
    given = {**_defaults(made), **given}
    for left, wanted, right in _conditions(tree, line):
        for side, kind, other in ((left, wanted, right), (right, _MIRRORED.get(wanted), left)):
            if kind is None:
                continue
            place = _place(side, given)
            if place is not None:
                value = _fulfilling(place, kind, other, given, tree)
                if value is not _NOTHING:
                    return _put(place, value, given)
            elif kind is ast.Eq and _value(other, given) == 0:
                found = _divisible(side, given)
                if found:
                    return found
    return {}


def _defaults(made: type) -> dict[str, object]:
    items = own_parameters(made)
    return {item.name: item.default for item in items if item.default is not item.empty}


def _conditions(
    tree: ast.Module, line: int | None
) -> Iterator[tuple[ast.expr, type[ast.cmpop], ast.expr]]:
    """Yield the comparisons that have to hold for the statement on a line not to refuse."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and _covers(node, line):
            yield from _compared(node.test, negated=False)
        elif isinstance(node, ast.If) and _raises(node.body, line):
            yield from _compared(node.test, negated=True)
        elif isinstance(node, ast.If) and _raises(node.orelse, line):
            yield from _compared(node.test, negated=False)


def _raises(body: list[ast.stmt], line: int | None) -> bool:
    return any(isinstance(item, ast.Raise) and _covers(item, line) for item in body)


def _covers(node: ast.stmt, line: int | None) -> bool:
    return line is not None and node.lineno <= line <= (node.end_lineno or node.lineno)


def _compared(
    test: ast.expr, *, negated: bool
) -> Iterator[tuple[ast.expr, type[ast.cmpop], ast.expr]]:
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            kind = _OPPOSITE.get(type(operator)) if negated else type(operator)
            if kind is not None:
                yield left, kind, right
        case ast.BoolOp(values=values):
            for value in values:
                yield from _compared(value, negated=negated)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _compared(operand, negated=not negated)
        case ast.BinOp(op=ast.Mod()) if negated:
            yield test, ast.Eq, ast.Constant(value=0)
        case _:
            pass


def _place(node: ast.expr, given: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the argument, and the attribute of it, that an expression names."""
    match node:
        case ast.Name(id=name) if name in given:
            return name, ""
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            if name in given:
                return name, ""
            owners = [key for key, value in given.items() if name in _fields(value)]
            return (owners[0], name) if owners else None
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            return (owner, name) if name in _fields(given.get(owner)) else None
        case _:
            return None


def _fields(value: object) -> Mapping[str, Any]:
    if isinstance(value, Settings):
        return value
    return vars(value) if isinstance(value, (Namespace, SimpleNamespace)) else {}


def _value(node: ast.expr, given: Mapping[str, object]) -> Any:
    """Return the value of an expression of given arguments, or a value that equals nothing."""
    own: dict[str, Any] = {}
    for value in given.values():
        own |= _fields(value)
    names = {**given, "self": SimpleNamespace(**{**own, **given})}
    tree = ast.fix_missing_locations(ast.Expression(body=node))
    code = compile(tree, "<condition>", "eval")
    found = attempt(lambda: eval(code, {"__builtins__": {"len": len, "sum": sum}}, names))
    return _NOTHING if isinstance(found, Failure) else found


def _fulfilling(
    place: tuple[str, str],
    kind: type[ast.cmpop],
    other: ast.expr,
    given: Mapping[str, object],
    tree: ast.Module,
) -> object:
    value = _value(other, given)
    if value is _NOTHING:
        return _NOTHING
    name, field = place
    now = _fields(given[name])[field] if field else given[name]
    if kind is ast.NotEq:
        return _another_choice(place, now, tree, given)
    if kind is ast.In:
        return next(iter(value), _NOTHING) if isinstance(value, (list, tuple, set)) else _NOTHING
    plain = (int, float, str, list, tuple)
    if not isinstance(value, plain):
        return _NOTHING
    numbers = isinstance(value, int | float)
    exchange: dict[type[ast.cmpop], Callable[[Any], Any]] = {
        ast.Eq: lambda wanted: wanted, ast.GtE: lambda least: least, ast.LtE: lambda most: most,
        ast.Gt: lambda below: below + 1, ast.Lt: lambda above: above - 1,
    }  # fmt: skip
    if kind not in exchange or (kind is not ast.Eq and not numbers):
        return _NOTHING
    wanted = exchange[kind](value)
    return _NOTHING if wanted == now else wanted


def _another_choice(
    place: tuple[str, str], now: object, tree: ast.Module, given: Mapping[str, object]
) -> object:
    """Return the next text with which the file compares what is refused now."""
    choices: dict[object, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(
                left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str(text))]
            ):
                if _place(left, given) == place:
                    choices.setdefault(text)
            case _:
                pass
    known = list(choices)
    if now not in known:
        return known[0] if known else _NOTHING
    later = known[known.index(now) + 1 :]
    return later[0] if later else _NOTHING


def _divisible(node: ast.expr, given: Mapping[str, object]) -> dict[str, object]:
    """Return a multiple for `a % b == 0`, or the divisor for what divides."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return {}
    place, divisor = _place(node.left, given), _value(node.right, given)
    now = _value(node.left, given)
    if place is None or type(divisor) is not int or type(now) is not int or divisor < 1:
        return {}
    return _put(place, divisor * max(1, now // divisor), given)


def _put(place: tuple[str, str], value: object, given: Mapping[str, object]) -> dict[str, object]:
    name, field = place
    if not field:
        return {name: value}
    owner: Any = copy.copy(given[name])
    if isinstance(owner, Settings):
        owner[field] = value
    else:
        setattr(owner, field, value)
    return {name: owner}
