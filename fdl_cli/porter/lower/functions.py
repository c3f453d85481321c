"""The functions of a file: which of them can be recorded operation by operation."""

import ast
from collections.abc import Mapping

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.ir.statements import expressions
from fdl_cli.porter.lower.effects.opaque_helpers import fills_argument
from fdl_cli.porter.lower.effects.random_calls import drawing_functions
from fdl_cli.porter.lower.environment import ClassView, FunctionFact
from fdl_cli.porter.lower.methods import MethodReader
from fdl_cli.porter.lower.names import FunctionNode

_NO_CLASS = ClassView(
    attributes={}, methods=frozenset(), results={}, inherits_forward=False, extends_layer=False
)


def understand_functions(
    reader: MethodReader, functions: Mapping[str, FunctionNode], elsewhere: Mapping[str, Kind]
) -> None:
    """Give the reader the functions whose operations can be recorded one by one, and those that draw.

    `elsewhere` are imported names of functions that draw, with what they return.
    """
    for name, kind in {**elsewhere, **drawing_functions(reader.names, elsewhere)}.items():
        drawn = FunctionFact(transparent=False, result=kind, none_test=None, draws=True)
        reader.functions[name] = drawn
    mentioned = {name: _mentioned(node) for name, node in functions.items()}
    waiting = dict(functions)
    todo = set(functions)
    # A function may call one defined below it: repeat until nothing new is understood.
    while todo:
        found = {}
        for name in [name for name in waiting if name in todo]:
            fact = _function_fact(reader, waiting[name])
            if fact.transparent:
                found[name] = fact
        reader.functions.update(found)
        waiting = {name: node for name, node in waiting.items() if name not in found}
        # Whether a function is plain changes only with the functions that it mentions.
        todo = {name for name in waiting if mentioned[name] & found.keys()}
    for name, node in waiting.items():
        reader.functions.setdefault(name, _function_fact(reader, node))


def _mentioned(node: FunctionNode) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _function_fact(reader: MethodReader, node: FunctionNode) -> FunctionFact:
    plain = ast.FunctionDef(**{**vars(node), "args": _with_self(node.args)})
    ast.copy_location(plain, node)
    method, result = reader.read(plain, _NO_CLASS)
    roles = {expr.role for expr in expressions(method.body)}
    # Code that reads a tensor's value is rewritten in a flow, but not in a function.
    asks = any(expr.asked or expr.role == "value" for expr in expressions(method.body))
    transparent = not (method.refusals or asks or roles & {"submodule", "function", "own"})
    return FunctionFact(
        transparent=transparent,
        result=result,
        none_test=_none_test(node),
        fills=fills_argument(node, 0),
    )


def _with_self(arguments: ast.arguments) -> ast.arguments:
    # A function is read as a method without an object: an unused first parameter stands for it.
    first = ast.arg(arg="", lineno=0, col_offset=0)
    return ast.arguments(**{**vars(arguments), "args": [first, *arguments.args]})


def _none_test(node: FunctionNode) -> bool | None:
    """Return the meaning of True when a function only compares its argument with None."""
    body = [stmt for stmt in node.body if not isinstance(stmt, ast.Expr)]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or len(node.args.args) != 1:
        return None
    test = body[0].value
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
        return None
    none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
    if not none or test.left.id != node.args.args[0].arg:
        return None
    return isinstance(test.ops[0], ast.Is)
