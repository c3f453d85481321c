"""Values of `--example` expressions and of the constructor calls in a script."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import final

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_BUILTIN_NAMES = frozenset({"torch", "nn", "F", "True", "False", "None", "int", "float", "range"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`model expression : arguments of the call`, both Python; the arguments may be missing."""

    model: str
    inputs: str | None


@final
class ExampleSyntaxError(ValueError):
    """An `--example` text that is no `MODEL: ARGUMENTS` in Python."""


def parse_example(text: str) -> Example:
    """Split `Net(10): torch.randn(2, 3), mask=None` at its first colon outside brackets.

    Raises:
        ExampleSyntaxError: one of the halves is not Python.

    >>> parse_example("Net(10): torch.randn(2, 3), mask=None").inputs
    'torch.randn(2, 3), mask=None'
    """
    cut = _first_free_colon(text)
    model, inputs = (text, None) if cut is None else (text[:cut], text[cut + 1 :])
    model = model.strip()
    inputs = inputs.strip() if inputs is not None else None
    for part in (model, f"call({inputs or ''})"):
        try:
            ast.parse(part, mode="eval")
        except SyntaxError as problem:
            raise ExampleSyntaxError(
                f"`{text}` is not `MODEL: ARGUMENTS`, such as"
                f" `Net(10): torch.randn(2, 3, 32, 32)`: {problem.msg}"
            ) from None
    return Example(model=model, inputs=inputs)


def model_expressions(file: Path, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the constructor calls in a file that can be evaluated from its global names alone.

    Calls of the named classes come first, in the order of the file, then functions that can be
    called without arguments and mention one of the classes or another such function.
    """
    tree = ast.parse(file.read_bytes())
    known = _global_names(tree) | _BUILTIN_NAMES
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id in class_names and free_names(node) <= known:
            found.setdefault(ast.unparse(node))
    return (*found, *_factories(tree, class_names))


def names_known(file: Path) -> set[str]:
    """Return the names that an expression may use in a file: its global ones, and those of torch."""
    return _global_names(ast.parse(file.read_bytes())) | _BUILTIN_NAMES


def _factories(tree: ast.Module, class_names: tuple[str, ...]) -> tuple[str, ...]:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    makers = set(class_names)
    for _ in functions:
        grown = {item.name for item in functions if makers & free_names(item)}
        if grown <= makers:
            break
        makers |= grown
    return tuple(f"{item.name}()" for item in functions if item.name in makers and _callable(item))


def _callable(function: ast.FunctionDef) -> bool:
    arguments = function.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return required == 0 and all(default is not None for default in arguments.kw_defaults)


def _global_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((item.asname or item.name).split(".")[0] for item in node.names)
        else:
            names.update(
                item.id
                for item in ast.walk(node)
                if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
            )
    return names


def free_names(node: ast.AST) -> set[str]:
    """Return the names that code reads or assigns."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _first_free_colon(text: str) -> int | None:
    depth = 0
    lambdas = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.string in _OPENING:
                depth += 1
            elif token.string in _CLOSING:
                depth -= 1
            elif token.string == "lambda" and depth == 0:
                lambdas += 1
            elif token.string == ":" and depth == 0:
                if lambdas == 0:
                    return token.start[1]
                lambdas -= 1
    except tokenize.TokenError as problem:
        raise ExampleSyntaxError(f"`{text}`: {problem.args[0]}") from None
    return None
