"""The spine of an expression: the value that steps are applied to, one after the other.

Before: F.relu(self.bn(x)).flatten(1)
After:  head x, steps self.bn, F.relu, flatten
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import STEP_WORDS, Expr, place

_STILL = frozenset({"python", "size", "none", "module", "modules"})


def is_unary_torch(expr: Expr) -> bool:
    """Return True if the expression is a torch call on one tensor, with plain further arguments."""
    if expr.op != "call" or expr.role != "torch" or len(expr.parts) < 2:
        return False
    first, *others = expr.parts[1:]
    if expr.labels[0] != "" or first.kind != "flow" or _is_replaceable(first):
        return False
    return all(other.kind in _STILL for other in others) and "**" not in expr.labels


def _is_replaceable(value: Expr) -> bool:
    """Return True for the result of a function that others may replace by one that returns no value.

    A test that puts its own function into the module gets `torch.linalg.pinv(matrix(n))` as it was
    written; its stand-in for a matrix has no `through`.
    """
    return value.op == "call" and value.role == "python" and value.parts[0].op == "name"


def receiver(expr: Expr) -> Expr | None:
    """Return the value that the last step of the expression is applied to."""
    match expr.op:
        case "index" | "binary":
            return expr.parts[0]
        case word if word in STEP_WORDS:
            return expr.parts[0]
        case "attribute":
            return expr.parts[0] if not expr.dotted else None
        case "call" if expr.role == "method" and expr.parts[0].op == "attribute":
            return expr.parts[0].parts[0]
        case "call" if is_unary_torch(expr):
            return expr.parts[1]
        case _:
            return None


def with_receiver(expr: Expr, value: Expr) -> Expr:
    """Return the last step applied to another value."""
    if expr.op == "call" and expr.role == "method":
        callee = replace(expr.parts[0], parts=(value,))
        return replace(expr, parts=(callee, *expr.parts[1:]))
    if expr.op == "call":
        return replace(expr, parts=(expr.parts[0], value, *expr.parts[2:]))
    return replace(expr, parts=(value, *expr.parts[1:]))


def head(expr: Expr) -> Expr:
    """Return the first value of the spine."""
    value = receiver(expr)
    return expr if value is None else head(value)


def spine(expr: Expr) -> list[Expr]:
    """Return the expression and its receivers, outermost first."""
    found = [expr]
    value = receiver(expr)
    while value is not None:
        found.append(value)
        value = receiver(value)
    return found


def replace_on_spine(expr: Expr, old: Expr, new: Expr) -> Expr:
    """Put a value in the place of one receiver of the spine."""
    if expr is old:
        return new
    value = receiver(expr)
    assert value is not None, "the old value is on the spine"
    return with_receiver(expr, replace_on_spine(value, old, new))


def as_step(call: Expr) -> Expr:
    """Turn a torch call on one tensor into a step: `F.relu(x)` becomes x through F.relu."""
    callee, value, *others = call.parts
    return Expr(
        op="through",
        parts=(value, callee, *others),
        labels=call.labels[1:],
        kind="flow",
        origin=place(call),
    )


def straighten(expr: Expr) -> Expr:
    """Turn torch calls on the spine into steps wherever a flow word is under or over them."""
    nodes = spine(expr)
    words = [index for index, node in enumerate(nodes) if _is_word(node)]
    if not words:
        return expr
    last = max(words)
    result = nodes[-1]
    for index in range(len(nodes) - 2, -1, -1):
        node = (
            with_receiver(nodes[index], result) if _changed(nodes, index, result) else nodes[index]
        )
        step = is_unary_torch(node) and (index < last or _carried(nodes, index))
        result = as_step(node) if step else node
    return result


def all_steps(expr: Expr) -> Expr:
    """Turn the torch calls on the spine into steps; it starts with a call on several values, as is."""
    result = expr
    for index, node in enumerate(reversed(spine(expr))):
        moved = with_receiver(node, result) if index else node
        start = index == 1 and "" in moved.labels[1:]
        result = as_step(moved) if index and is_unary_torch(moved) and not start else moved
    return result


def _changed(nodes: list[Expr], index: int, result: Expr) -> bool:
    return result is not nodes[index + 1]


def _is_word(expr: Expr) -> bool:
    return expr.op in STEP_WORDS


def _carried(nodes: list[Expr], index: int) -> bool:
    """Return True if a call under all flow words still belongs to their chain: steps all the way."""
    for node in reversed(nodes[:index]):
        if _is_word(node):
            return True
        if not is_unary_torch(node):
            return False
    return False
