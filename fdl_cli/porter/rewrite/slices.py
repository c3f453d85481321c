"""Slices of a value that a loop runs over: `x[:, t]` for every t of `range(x.size(1))`.

Before: B, T, D = x.shape; for t in range(T): ... x[:, t]
After:  every slice of x along dimension 1, each of them once, in order
"""

from fdl_cli.porter.ir.expressions import Expr, walk
from fdl_cli.porter.ir.statements import Block, Stmt, bound_names, expressions, statements

Sliced = tuple[str, int]


def slice_at(expr: Expr, index: str) -> Sliced | None:
    """Return the variable and the dimension of `x[:, t]`, where `index` is the name t."""
    if expr.op != "index" or expr.parts[0].op != "name" or expr.parts[0].kind != "flow":
        return None
    where = expr.parts[1]
    items = where.parts if where.op == "tuple" else (where,)
    named = [position for position, item in enumerate(items) if item.op == "name"]
    if len(named) != 1 or items[named[0]].name != index:
        return None
    dim = named[0]
    whole = all(_is_whole(item) for item in items[:dim])
    rest = all(_is_whole(item) or item.name == "..." for item in items[dim + 1 :])
    return (expr.parts[0].name, dim) if whole and rest else None


def unbound(iterable: Expr) -> tuple[Expr, int] | None:
    """Return the variable and the dimension of `x.unbind(1)` or `torch.unbind(x, 1)`."""
    if iterable.op != "call":
        return None
    callee, *others = iterable.parts
    if iterable.role == "torch" and callee.dotted == "torch.unbind" and others:
        value, *others = others
        labels = iterable.labels[1:]
    elif iterable.role == "method" and callee.op == "attribute" and callee.name == "unbind":
        value, labels = callee.parts[0], iterable.labels
    else:
        return None
    if value.op != "name" or value.kind != "flow" or labels not in {(), ("",), ("dim",)}:
        return None
    dim = integer(others[0]) if others else 0
    return None if dim is None or dim < 0 else (value, dim)


def counts_slices(iterable: Expr, sliced: Sliced, earlier: Block) -> bool:
    """Return True if a `range` counts all slices of a value along a dimension.

    `earlier` are the statements of the same block before the loop.
    """
    if iterable.op != "call" or iterable.parts[0].name != "range" or iterable.parts[0].dotted:
        return False
    limits = iterable.parts[1:]
    if len(limits) == 2 and limits[0].op == "constant" and limits[0].name == "0":
        limits = limits[1:]
    if len(limits) != 1:
        return False
    if limits[0].op == "name":
        return _defined_size(limits[0].name, sliced[0], earlier) == sliced
    return _size(limits[0]) == sliced


def integer(expr: Expr) -> int | None:
    """Return the value of a written number."""
    if expr.op == "unary" and expr.name == "-":
        positive = integer(expr.parts[0])
        return None if positive is None else -positive
    return int(expr.name) if expr.op == "constant" and expr.name.isdecimal() else None


def _is_whole(item: Expr) -> bool:
    return item.op == "slice" and not item.parts


def _size(expr: Expr) -> Sliced | None:
    """Read `x.size(1)`, `x.shape[1]`, `x.size()[1]` or `len(x)`."""
    if expr.op == "index":
        owner, dim = _shape(expr.parts[0]), integer(expr.parts[1])
    elif expr.op == "call" and len(expr.parts) == 2:
        callee, argument = expr.parts
        if callee.op == "name" and callee.name == "len" and argument.op == "name":
            return argument.name, 0
        owner, dim = _owner(callee, "size"), integer(argument)
    else:
        return None
    return None if owner is None or dim is None else (owner, dim)


def _shape(expr: Expr) -> str | None:
    """Return the variable of `x.shape` or `x.size()`."""
    if expr.op == "call" and len(expr.parts) == 1:
        return _owner(expr.parts[0], "size")
    return _owner(expr, "shape")


def _owner(expr: Expr, attribute: str) -> str | None:
    if expr.op != "attribute" or expr.name != attribute or expr.dotted:
        return None
    owner = expr.parts[0]
    return owner.name if owner.op == "name" and owner.kind == "flow" else None


def _defined_size(name: str, owner: str, earlier: Block) -> Sliced | None:
    """Return the value whose size a name was last defined to be, if that still is its size."""
    for stmt in reversed(earlier):
        if stmt.op == "assign" and name in bound_names(stmt):
            return _definition(stmt, name)
        bound = {one for inner in statements((stmt,)) for one in bound_names(inner)}
        if bound & {name, owner} or _changes(stmt, owner):
            return None
    return None


def _definition(stmt: Stmt, name: str) -> Sliced | None:
    for target in stmt.targets:
        if target.op == "name" and target.name == name:
            return _size(stmt.exprs[0])
        if target.op == "tuple" and all(part.op == "name" for part in target.parts):
            names = [part.name for part in target.parts]
            owner = _shape(stmt.exprs[0])
            if owner is not None and names.count(name) == 1 and owner not in names:
                return owner, names.index(name)
    return None


def _changes(stmt: Stmt, owner: str) -> bool:
    """Return True if a statement calls a method of the value that works in place."""
    return any(
        node.op == "attribute" and node.name.endswith("_") and node.parts[0].name == owner
        for expr in expressions((stmt,))
        for node in walk(expr)
        if node.parts
    )
