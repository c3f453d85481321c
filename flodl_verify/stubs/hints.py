"""Hints in the text of a script on a table that it reads: names and number of columns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

# The first argument of these is how many numbers a sample has.
_FIRST_LAYERS: Final = frozenset(
    {"Linear", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"}
)
_FEWEST = 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The columns that a script uses; `reads_names` when it reads them from the file."""

    columns: int = _FEWEST
    names: tuple[str, ...] = ()
    reads_names: bool = False


def hints_of(script: Path) -> Hints:
    """Read the hints of a script; a script that cannot be parsed gives none."""
    try:
        tree = ast.parse(script.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return Hints()
    names = tuple(dict.fromkeys(_names(tree)))
    numbers = dict(_constants(tree))
    bounds = list(_bounds(tree))
    wanted = max((bound for bound in bounds if bound > 0), default=0)
    features = next(_features(tree, numbers), 0)
    # Next to what a sample has, there is a column with its label.
    columns = max(wanted, features + 1 if features else 0, len(names), _FEWEST)
    reads = any(isinstance(node, ast.Attribute | ast.Name) and _named(node) in {"DictReader", "read_csv"}
                for node in ast.walk(tree))  # fmt: skip
    return Hints(columns=columns, names=names, reads_names=reads)


def _named(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the texts by which something is looked up: `table["price"]`, `table[["a", "b"]]`."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name
            case ast.Subscript(slice=ast.List(elts=items)):
                yield from _texts(items)
            case ast.Call(func=ast.Attribute(attr="drop"), args=args, keywords=keywords):
                for value in (*args, *(item.value for item in keywords if item.arg != "axis")):
                    yield from _texts(value.elts if isinstance(value, ast.List) else [value])
            case _:
                pass


def _texts(items: list[ast.expr]) -> Iterator[str]:
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value


def _constants(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                yield name, value
            case _:
                pass


def _bounds(tree: ast.Module) -> Iterator[int]:
    """Yield how many columns the subscripts `table[:, ...]` need at least."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Tuple(elts=[_, columns])):
                yield from _reach(columns)
            case _:
                pass


def _reach(columns: ast.expr) -> Iterator[int]:
    match columns:
        case ast.Constant(value=int(number)):
            yield number + 1
        case ast.Slice(lower=lower, upper=upper):
            yield from (n + 1 for n in _integer(lower))
            yield from _integer(upper)
        case ast.List(elts=items):
            yield from (n + 1 for item in items for n in _integer(item))
        case _:
            pass


def _integer(node: ast.expr | None) -> Iterator[int]:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node.value


def _features(tree: ast.Module, numbers: dict[str, int]) -> Iterator[int]:
    """Yield the widths of what layers take, as far as they are written down, in the order of the text."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        if (
            not isinstance(node.func, ast.Attribute | ast.Name)
            or _named(node.func) not in _FIRST_LAYERS
        ):
            continue
        match node.args[0]:
            case ast.Constant(value=int(width)):
                yield width
            case ast.Name(id=name) if name in numbers:
                yield numbers[name]
            case _:
                pass
