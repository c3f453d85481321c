"""Attributes of other objects that a forward sets: on values of the graph, on layers, on new objects."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.knowledge.python_names import MUTATORS, TEXT_METHODS
from fdl_cli.porter.lower.environment import Environment
from fdl_cli.porter.lower.names import FunctionNode

# Properties of tensors: torch itself tells a recording when they are set.
_TENSOR_DATA = frozenset({"data", "requires_grad", "grad"})


def is_recorded(env: Environment, target: Expr) -> bool:
    """Return True if setting an attribute as it is written is a step of the graph."""
    owner = target.parts[0]
    if target.name in _TENSOR_DATA and owner.kind in {"flow", "parameter", "maybe"}:
        return True
    if owner.kind in {"flow", "result"}:
        return True
    root = owner
    while root.op in {"attribute", "index"}:
        root = root.parts[0]
    given = env.method is not None and root.op == "name" and root.name in handed_in(env.method)
    return owner.kind == "maybe" and given


def is_elsewhere(env: Environment, owner: Expr) -> bool:
    """Return True if the owner of an attribute is a layer, something the object holds, or a library."""
    if owner.kind == "module" or owner.dotted:
        return True
    root, depth = owner, 0
    while root.op == "attribute":
        root, depth = root.parts[0], depth + 1
    return depth > 0 and env.is_self(root)


def paired(target: Expr, value: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """Return the targets and values; `a.x, a.y = b, c` sets two, where nothing is computed for it."""
    if target.op != "tuple" or value.op != "tuple" or len(target.parts) != len(value.parts):
        return ((target, value),)
    quiet = all(part.op in {"name", "constant"} for part in value.parts)
    return tuple(zip(target.parts, value.parts, strict=True)) if quiet else ((target, value),)


def as_call(target: Expr, value: Expr, span: Span) -> Expr:
    """Return `call(setattr, owner, "name", value)`: done to that very object in every call."""
    name = Expr(op="name", name="setattr", kind="python")
    word = Expr(op="constant", name=f'"{target.name}"', kind="python")
    return Expr(
        op="call",
        parts=(name, target.parts[0], word, value),
        labels=("", "", ""),
        kind="none",
        role="function",
        span=span,
    )


def as_read(owner: Expr, name: str, span: Span) -> Expr:
    """Return `call(getattr, owner, "name")`, which reads the attribute in that very call."""
    word = Expr(op="constant", name=f'"{name}"', kind="python")
    return Expr(
        op="call",
        parts=(Expr(op="name", name="getattr", kind="python"), owner, word),
        labels=("", ""),
        kind="result",
        role="function",
        span=span,
    )


def is_set_here(method: FunctionNode | None, node: ast.Attribute) -> bool:
    """Return True if a method replaces or changes the value of an attribute such as `self.config.kind`."""
    if method is None or not isinstance(node.ctx, ast.Load) or isinstance(node.value, ast.Name):
        return False
    return ast.unparse(node) in _settings(method) | _filled_chains(method)


@lru_cache(maxsize=64)
def _filled_chains(method: FunctionNode) -> frozenset[str]:
    """Return the attributes of held objects that a method fills: `self.config.seen.append(x)`."""
    own = method.args.args[0].arg if method.args.args else ""
    found: set[str] = set()
    for node in ast.walk(method):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=owner) as target, attr=name)
            ):
                is_filled = name in MUTATORS
            case ast.Subscript(
                value=ast.Attribute(value=owner) as target, ctx=ast.Store() | ast.Del()
            ):
                is_filled = True
            case _:
                continue
        if is_filled and _root(owner) == own and not isinstance(owner, ast.Name):
            found.add(ast.unparse(target))
    return frozenset(found)


@lru_cache(maxsize=64)
def receivers(method: FunctionNode) -> frozenset[str]:
    """Return the variables whose methods a method calls, or whose items it sets."""
    found: set[str] = set()
    for node in ast.walk(method):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
                found |= {name} - ({name} if attr in TEXT_METHODS else set())
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def is_held(env: Environment, expr: Expr, depth: int) -> bool:
    """Return True if a value is an object below `self`, so many attributes or items down at least.

    Nothing is known of it: it may be a tensor, or change between the calls.
    """
    steps = 0
    root = expr
    while root.op in {"attribute", "index"} and root.kind == "python" and not root.dotted:
        steps += 1 if root.op == "attribute" else depth
        root = root.parts[0]
    held = env.is_self(root) or root.kind in {"module", "modules"}
    return held and steps >= depth and expr.kind == "python"


def read_live(expr: Expr, span: Span) -> Expr:
    """Return a value below `self` as a step reads it in every call: `call(getattr, self, "tables")[0]`."""
    if expr.op == "attribute":
        return as_read(expr.parts[0], expr.name, expr.span or span)
    owner = read_live(expr.parts[0], span)
    return replace(expr, parts=(owner, *expr.parts[1:]), kind="result")


@lru_cache(maxsize=64)
def _settings(method: FunctionNode) -> frozenset[str]:
    """Return the attributes of held objects that a method sets, always to constants."""
    own = method.args.args[0].arg if method.args.args else ""
    plain: dict[str, bool] = {}
    for node in ast.walk(method):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Attribute) and _root(target) == own:
                name = ast.unparse(target)
                plain[name] = plain.get(name, True) and isinstance(node.value, ast.Constant)
    return frozenset(name for name, is_plain in plain.items() if is_plain and name.count(".") > 1)


def reads_of(methods: list[FunctionNode], name: str) -> Iterator[ast.Attribute]:
    """Yield where methods read an attribute of that name from anything but their own object."""
    for method in methods:
        own = method.args.args[0].arg if method.args.args else ""
        for node in ast.walk(method):
            if not isinstance(node, ast.Attribute) or node.attr != name:
                continue
            on_self = isinstance(node.value, ast.Name) and node.value.id == own
            if isinstance(node.ctx, ast.Load) and not on_self and not is_set_here(method, node):
                yield node


@lru_cache(maxsize=64)
def handed_in(method: FunctionNode) -> frozenset[str]:
    """Return the variables that are only ever parameters of a method, or elements of those."""
    arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
    found = {argument.arg for argument in arguments[1:]}
    sources = list(_sources(method))
    bound = {name for name, _ in sources}
    changed = True
    while changed:
        changed = False
        for name in sorted(bound - found):
            if all(root in found for each, root in sources if each == name):
                found.add(name)
                changed = True
    return frozenset(
        name for name in found if all(root in found for each, root in sources if each == name)
    )


def _sources(method: FunctionNode) -> Iterator[tuple[str, str]]:
    """Yield every variable that is bound, and the variable whose element it becomes, if it does."""
    for node in ast.walk(method):
        if isinstance(node, ast.For | ast.comprehension):
            yield from _elements(node.target, node.iter)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for name in _names(target):
                    yield name, _root(node.value)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            for name in _names(node.target):
                yield name, ""
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            for name in _names(node.optional_vars):
                yield name, ""


def _elements(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[str, str]]:
    match target, iterable:
        case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=given):
            for part, each in zip(parts, given, strict=False):
                yield from _elements(part, each)
        case ast.Tuple(elts=[count, part]), ast.Call(
            func=ast.Name(id="enumerate"), args=[each, *_]
        ):
            for name in _names(count):
                yield name, ""
            yield from _elements(part, each)
        case _:
            for name in _names(target):
                yield name, _root(iterable)


def _root(node: ast.expr) -> str:
    """Return the variable of which a value is an element or an attribute."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
