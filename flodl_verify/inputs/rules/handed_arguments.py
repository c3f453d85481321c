"""Guesses of arguments that a constructor passes on whole (`WN(16, **config)`), and lengths of lists."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping

from torch import nn

from flodl_verify.sources.class_sources import class_node

# The values that a class needs for its constructor, by name and in order.
Needs = Callable[[type], Mapping[str, object]]

_STARS = re.compile(r"argument after (\*\*?) must be an? (?:mapping|iterable)")
_COUNT = re.compile(r"(?<![\w.])\d+(?![\w.])")
_ASSERTED = re.compile(r"assert len\((\w+)\) == (\d+)")
_MOST = 12


def handed_on(
    made: type, given: Mapping[str, object], refusal: str, needs: Needs
) -> dict[str, object]:
    """Return the arguments of another class, for the parameter that is passed on to it whole."""
    said = _STARS.search(refusal)
    node = class_node(made)
    if said is None or node is None:
        return {}
    beside = vars(sys.modules.get(made.__module__, sys))
    for call in (item for item in ast.walk(node) if isinstance(item, ast.Call)):
        name = _starred(call) if said[1] == "*" else _double_starred(call)
        kind = beside.get(ast.unparse(call.func))
        if name not in given or isinstance(given[name], (list, tuple, dict)):
            continue
        if not isinstance(kind, type) or not issubclass(kind, nn.Module) or kind is made:
            continue
        wanted = dict(needs(kind))
        for known in [*list(wanted)[: _positional(call)], *(item.arg for item in call.keywords)]:
            wanted.pop(known or "", None)
        return {name: list(wanted.values()) if said[1] == "*" else wanted}
    return {}


def of_other_length(given: Mapping[str, object], refusal: str) -> dict[str, object]:
    """Return lists of the length that a refusal requires: it names one, its length and another.

    A bare assertion shows the length that it wants.
    """
    for name, count in _ASSERTED.findall(refusal):
        value = given.get(name)
        if isinstance(value, (list, tuple)) and len(value) != int(count) <= _MOST:
            return {name: type(value)(value[:1] * int(count))}
    counts = {int(text) for text in _COUNT.findall(refusal)}
    for name, value in given.items():
        named = re.search(rf"\b{re.escape(name)}\b", refusal)
        if not named or not isinstance(value, (list, tuple)) or len(value) not in counts:
            continue
        others = counts - {len(value)}
        wanted = next(iter(others)) if len(others) == 1 else 0
        if 0 < wanted <= _MOST:
            return {name: type(value)(value[:1] * wanted)}
    return {}


def _positional(call: ast.Call) -> int:
    return sum(not isinstance(item, ast.Starred) for item in call.args)


def _starred(call: ast.Call) -> str:
    found = [item.value for item in call.args if isinstance(item, ast.Starred)]
    return _name(found[0]) if len(found) == 1 else ""


def _double_starred(call: ast.Call) -> str:
    found = [item.value for item in call.keywords if item.arg is None]
    return _name(found[0]) if len(found) == 1 else ""


def _name(node: ast.expr) -> str:
    return ast.unparse(node).removeprefix("self.")
