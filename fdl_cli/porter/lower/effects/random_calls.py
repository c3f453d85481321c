"""The functions of a file that draw random numbers: their calls are steps, carried out at every call."""

import ast
from collections.abc import Callable, Iterator, Mapping

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.knowledge import python_names as py
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.lower.names import Names


def drawing_functions(names: Names, elsewhere: Mapping[str, Kind]) -> dict[str, Kind]:
    """Return the functions that draw, by themselves or through another one, and their results.

    From torch they may return tensors; other generators make numbers. `elsewhere` are imported names.
    """
    called = {name: set(calls(names, node)) for name, node in names.functions.items()}
    numbers = {name for name, kind in elsewhere.items() if kind == "size"}
    tensors = elsewhere.keys() - numbers
    python = _closure(called, lambda each: _draws_numbers(each) or each in numbers)
    both = _closure(called, lambda each: each in torch.DRAWS or each in tensors or each in python)
    return {**dict.fromkeys(both, "flow"), **dict.fromkeys(python, "size")}


def _closure(called: Mapping[str, set[str]], draws: Callable[[str], bool]) -> set[str]:
    found = {name for name, others in called.items() if any(map(draws, others))}
    while more := {name for name, others in called.items() if others & found} - found:
        found |= more
    return found


def calls(names: Names, node: ast.AST) -> Iterator[str]:
    """Yield the callees of code: full names, names of the file, methods as `.name`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            dotted = names.dotted(inner.func)
            if dotted:
                yield dotted
            elif isinstance(inner.func, ast.Name):
                yield inner.func.id
            elif isinstance(inner.func, ast.Attribute):
                yield f".{inner.func.attr}"


def _draws_numbers(called: str) -> bool:
    return called.startswith(py.RANDOM_PREFIXES) and not called.endswith(".seed")
