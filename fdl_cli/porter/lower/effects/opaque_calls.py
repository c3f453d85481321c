"""Calls that stay as they are written and are done by one step: layers and texts made in a forward.

Before: nn.Linear(4, x.size(1)), print(f"mean {x.mean()}")
After:  call(lambda x: nn.Linear(4, x.size(1)), x), call(lambda x: print(f"mean {x.mean()}"), x)
"""

import ast

from fdl_cli.porter.ir.expressions import Expr, Kind, walk
from fdl_cli.porter.knowledge.python_names import PURE_BUILTINS
from fdl_cli.porter.knowledge.tensor_methods import PYTHON_METHODS, SIZE_METHODS
from fdl_cli.porter.lower.environment import MAY_FLOW, Environment


def made_call(env: Environment, node: ast.expr, kind: Kind, *, hides: bool = False) -> Expr:
    """Return an expression as the call of a function of the variables that it reads.

    With `hides`, operations inside it are counted as those of an opaque step.
    """
    bound = {
        each.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.comprehension)
        for each in ast.walk(inner.target)
        if isinstance(each, ast.Name)
    }
    read = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    known = {*env.kinds, env.self_name}
    names = [name for name in dict.fromkeys(read) if name in known and name not in bound]
    if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
        env.refuse(node.lineno, "FDL318", "a variable that is bound inside of a step")
    inside = sum(_computes(each) for each in ast.walk(node) if each is not node)
    if (kind == "none" or hides) and inside:
        env.opaque[node.lineno] = inside
    span = env.source.span(node)
    head = f"lambda {', '.join(names)}" if names else "lambda"
    made = Expr(op="name", name=f"{head}: {env.source.slice(span)}", kind="python")
    return Expr(
        op="call",
        parts=(made, *(Expr(op="name", name=name, kind="python") for name in names)),
        labels=("",) * len(names),
        kind=kind,
        role="function",
        span=span,
    )


def has_steps(expr: Expr) -> bool:
    """Return True if an expression runs code that is not known, and has to do so in every call."""
    steps = {"submodule", "function", "made", "value"}
    return any(node.op == "call" and node.role in steps for node in walk(expr))


def is_used_up(expr: Expr) -> bool:
    """Return True if a value is an iterator over code of the flow: whoever gets it runs that code."""
    if expr.op in {"tuple", "list", "dict"}:
        return any(is_used_up(part) for part in expr.parts)
    is_map = (
        expr.op == "call" and expr.role == "python" and expr.parts[0].name in {"map", "filter"}
    )
    return is_map or (expr.op == "comprehension" and expr.name == "generator")


def _computes(node: ast.AST) -> bool:
    """Return True if a call may be more than a question about sizes or a piece of plain Python."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name not in PURE_BUILTINS
        case ast.Call(func=ast.Attribute(attr=name)):
            return name not in SIZE_METHODS | PYTHON_METHODS | {"format", "join"}
        case _:
            return isinstance(node, ast.Call)


def is_formatted(arguments: tuple[Expr, ...]) -> bool:
    """Return True if an argument is a text that holds values of the graph."""
    texts = [node for part in arguments for node in walk(part) if node.op == "format"]
    texts += [part for part in arguments if part.op == "binary" and part.name == "%"]
    texts += [part for part in arguments if part.op == "call" and part.parts[0].name == "format"]
    texts += [node for part in arguments for node in walk(part) if node.asked == "text"]
    return any(node.kind in MAY_FLOW for text in texts for node in walk(text))
