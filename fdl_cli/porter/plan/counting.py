"""Count of the operations of a forward that a graph shows as nodes."""

from fdl_cli.porter.ir.expressions import Expr, walk
from fdl_cli.porter.ir.statements import Block, statements

_TENSOR = frozenset({"flow", "flows", "parameter", "parameters"})
_CALLS = frozenset({"submodule", "function", "torch", "method"})


def count_operations(block: Block) -> int:
    """Count calls, operators, subscripts and attribute reads of tensors."""
    return sum(
        _count(expr)
        for stmt in statements(block)
        for expr in (*stmt.exprs, *_stores(stmt.targets))
    ) + sum(
        1 for stmt in statements(block) if stmt.op == "augment" and _is_tensor(stmt.targets[0])
    )


def _stores(targets: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(target for target in targets if target.op in {"index", "attribute"})


def _count(expr: Expr) -> int:
    callees = {id(node.parts[0]) for node in walk(expr) if node.op == "call"}
    return sum(1 for node in walk(expr) if id(node) not in callees and _is_operation(node))


def _is_operation(node: Expr) -> bool:
    if node.op == "call":
        return node.role in _CALLS
    if node.op in {"binary", "unary", "compare"}:
        return any(_is_tensor(part) for part in node.parts) and node.name not in {"is", "is not"}
    if node.op in {"index", "attribute"}:
        return node.parts[0].kind in {"flow", "parameter"}
    return False


def _is_tensor(expr: Expr) -> bool:
    return expr.kind in _TENSOR
