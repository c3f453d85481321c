"""The list of modules that a loop runs through, one module after the other.

Before: for i in range(len(self.layers)): ... self.layers[i](x)
After:  self.layers
"""

from fdl_cli.porter.ir.expressions import Expr


def modules_of(target: Expr, iterable: Expr, stage: Expr) -> Expr | None:
    """Return the container whose modules a loop runs through, one by one, in order."""
    if target.op == "name" and stage.op == "name" and stage.name == target.name:
        return iterable if _is_container(iterable) else None
    if target.op == "tuple" and _is_builtin(iterable, "enumerate") and len(target.parts) == 2:
        item = target.parts[1]
        if item.op == "name" and stage.op == "name" and stage.name == item.name:
            return iterable.parts[1] if _is_container(iterable.parts[1]) else None
    if target.op == "name" and stage.op == "index" and _is_builtin(iterable, "range"):
        return _indexed(target, iterable, stage)
    return None


def _indexed(target: Expr, iterable: Expr, stage: Expr) -> Expr | None:
    container, index = stage.parts
    if len(iterable.parts) != 2 or not _is_builtin(iterable.parts[1], "len"):
        return None
    counted = iterable.parts[1].parts[1]
    same = _is_container(container) and _spelled(container) == _spelled(counted)
    return container if same and index.op == "name" and index.name == target.name else None


def _is_container(expr: Expr) -> bool:
    if expr.op == "index":
        return expr.kind == "modules" and expr.parts[1].op == "slice"
    root = expr
    while root.op == "attribute" and not root.dotted:
        root = root.parts[0]
    return (
        root.op == "name"
        and root is not expr
        and expr.kind not in {"flow", "flows", "parameters", "size"}
    )


def _is_builtin(expr: Expr, name: str) -> bool:
    called = expr.op == "call" and expr.parts[0].op == "name" and expr.parts[0].name == name
    return called and len(expr.parts) == 2


def _spelled(expr: Expr) -> str:
    return ".".join((*(_spelled(part) for part in expr.parts), expr.name))
