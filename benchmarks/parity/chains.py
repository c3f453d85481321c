"""Chains of layers: how many hand a value straight on, and how many still name it on the way."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from typing import Any


def handed_on(function: Any, own: set[str]) -> Any:
    """Return how often a forward hands the value of a layer to the next layer, and nowhere else."""
    self_name = function.args.args[0].arg if function.args.args else ""

    def argument(node: Any) -> Any:
        return node.args[0] if _is_layer_call(node, self_name, own) and node.args else None

    nested = sum(
        argument(node) is not None and _is_layer_call(node.args[0], self_name, own)
        for node in ast.walk(function)
    )
    return nested + sum(
        _is_layer_call(value, self_name, own)
        and _takes(argument(_innermost(after, argument)), name)
        for name, value, after in _handovers(function)
    )


def named_on_the_way(function: Any) -> Any:
    """Return how often a flow gives a name to a value between two steps that only hand it on."""
    return sum(
        _is_through(value) and _takes(_receiver(_innermost(after, _receiver)), name)
        for name, value, after in _handovers(function)
    )


def _handovers(function: Any) -> Any:
    """Yield name, value and the next value for statements whose value only the next one reads."""
    reads = Counter(
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
    for block in _blocks(function):
        for first, second in itertools.pairwise(block):
            name = _plain_target(first)
            value = getattr(second, "value", None)
            if name is None or not isinstance(second, ast.Assign | ast.Return) or value is None:
                continue
            inside = sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(value))
            if inside == 1 and (reads[name] == 1 or _plain_target(second) == name):
                yield name, first.value, value


def _blocks(function: Any) -> Any:
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _plain_target(stmt: Any) -> Any:
    match stmt:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None


def _innermost(value: Any, step: Any) -> Any:
    """Return the call that is done first among those that stand around each other."""
    while (inner := step(value)) is not None and step(inner) is not None:
        value = inner
    return value


def _takes(value: Any, name: str) -> Any:
    return isinstance(value, ast.Name) and value.id == name


def _is_layer_call(node: Any, self_name: str, own: set[str]) -> Any:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
            return owner == self_name and name not in own
        case ast.Call(func=ast.Subscript(value=ast.Attribute(value=ast.Name(id=owner)))):
            return owner == self_name
    return False


def _is_through(node: Any) -> Any:
    match node:
        case ast.Call(func=ast.Attribute(attr="through")):
            return True
    return False


def _receiver(node: Any) -> Any:
    return node.func.value if _is_through(node) else None
