"""What a forward is made of, by its text alone: the tier it belongs to, and measures of its port."""

from __future__ import annotations

import ast
import functools
import io
import statistics
import tokenize
from typing import Any

from benchmarks.parity import chains

Classes = dict[str, ast.ClassDef]

SYNC = {"item", "tolist", "numpy", "cpu_numpy", "nonzero_static"}
CREATORS = {
    "zeros",
    "ones",
    "randn",
    "rand",
    "arange",
    "tensor",
    "eye",
    "linspace",
    "full",
    "empty",
}
SIZES = {"shape", "size", "dim", "ndim", "numel"}
SKIP_NAMES = {"identity", "residual", "shortcut", "skip"}
SCALARS = {"int", "float", "bool"}


def classes_of(tree: ast.Module) -> Any:
    """Return the classes of the module's level by name."""
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def methods_of(classes: Classes, name: str) -> Any:
    """Return the methods of a class and its bases of the same file; nearer ones win."""
    found, queue, seen = {}, [name], set()
    while queue:
        node = classes.get(queue.pop(0))
        if node is None or node.name in seen:
            continue
        seen.add(node.name)
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                found.setdefault(item.name, item)
        queue += [base.id for base in node.bases if isinstance(base, ast.Name)]
    return found


def tier_of(classes: Classes, name: str) -> Any:
    """Return the tier (1 to 5) of a class: how much its forward asks of a capture.

    1 a chain, 2 a straight DAG, 3 control flow fixed by the constructor, 4 guards on inputs,
    5 state, data-dependent control flow, loops over inputs.
    """
    methods = methods_of(classes, name)
    if "forward" not in methods:
        return 1
    reached, queue = {}, ["forward"]
    while queue:
        current = queue.pop()
        if current in reached or current not in methods:
            continue
        reached[current] = methods[current]
        queue += sorted(self_names(methods[current], calls=True))
    traits = set().union(*(_Traits(node, len(reached) > 1).found for node in reached.values()))
    for tier, mark in ((5, "dynamic"), (4, "guard"), (3, "static"), (2, "dag")):
        if mark in traits:
            return tier
    return 1


class _Traits(ast.NodeVisitor):
    """Collects what makes a method more than a chain."""

    def __init__(self, function: Any, helped: bool) -> None:
        self.found = {"static"} if helped else set()
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self.own = names[0] if names else ""
        self.inputs = set(names[1:])
        self.function = function
        if len(self.inputs) > 1:
            self.found.add("dag")
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None and _reads(function, extra.arg):
                self.found.add("dynamic")
        self._uses()
        for statement in function.body:
            self.visit(statement)

    def _uses(self) -> None:
        last = self.function.body[-1]
        counts = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                counts[node.id] = counts.get(node.id, 0) + 1
        stores = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stores[node.id] = stores.get(node.id, 0) + 1
        known = self.inputs | set(stores)
        if any(counts.get(n, 0) > stores.get(n, 0) + (n in self.inputs) for n in known):
            self.found.add("dag")
        if isinstance(last, ast.Return) and isinstance(
            last.value, ast.Tuple | ast.List | ast.Dict
        ):
            self.found.add("dag")

    def visit_If(self, node: Any) -> None:
        self._test(node.test)
        ends = any(isinstance(item, ast.Return) for item in ast.walk(node))
        if ends and self._about_input(node.test):
            self.found.add("guard")
        self.generic_visit(node)

    def visit_IfExp(self, node: Any) -> None:
        self._test(node.test)
        self.generic_visit(node)

    def _test(self, test: ast.expr) -> None:
        text = ast.unparse(test)
        if f"{self.own}.training" in text or self._about_input(test):
            self.found.add("guard")
        else:
            self.found.add("static")

    def _about_input(self, node: Any) -> Any:
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return bool(names - {self.own, "isinstance", "len", "int", "torch", "nn", "hasattr"})

    def visit_For(self, node: Any) -> None:
        names = {n.id for n in ast.walk(node.iter) if isinstance(n, ast.Name)}
        sized = any(isinstance(n, ast.Attribute) and n.attr in SIZES for n in ast.walk(node.iter))
        fixed = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"
        if names & self.inputs and not (fixed or sized):
            self.found.add("dynamic")
        elif sized or names - {self.own, "range", "enumerate", "zip", "len", "reversed", "list"}:
            self.found.add("guard")
        else:
            self.found.add("static")
        self.generic_visit(node)

    def visit_ListComp(self, node: Any) -> None:
        self.found.add("static")
        self.generic_visit(node)

    def visit_Try(self, node: Any) -> None:
        self.found.add("dynamic")
        self.generic_visit(node)

    visit_While = visit_FunctionDef = visit_Lambda = visit_Yield = visit_Try  # noqa: N815

    def visit_With(self, node: Any) -> None:
        self.found.add("guard")
        self.generic_visit(node)

    visit_Assert = visit_Raise = visit_With  # noqa: N815

    def visit_Attribute(self, node: Any) -> None:
        own = isinstance(node.value, ast.Name) and node.value.id == self.own
        if own and not isinstance(node.ctx, ast.Load):
            self.found.add("dynamic")
        if own and node.attr in {"weight", "bias"}:
            self.found.add("dag")
        self.generic_visit(node)

    def visit_AugAssign(self, node: Any) -> None:
        if isinstance(node.target, ast.Subscript):
            self.found.add("guard")
        self.generic_visit(node)

    def visit_Subscript(self, node: Any) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.found.add("guard")
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            self.found.add("guard")
        self.generic_visit(node)

    def visit_Call(self, node: Any) -> None:
        match node.func:
            case ast.Attribute(attr=name) if name in SYNC:
                self.found.add("dynamic")
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                self.found.add("dynamic")
            case ast.Name(id=name) if name in SCALARS and "size" not in ast.unparse(node):
                self.found.add("dynamic")
            case ast.Attribute(attr=name) if name in CREATORS:
                self.found.add("dag")
            case ast.Name(id="print"):
                self.found.add("guard")
            case ast.Name():
                self.found.add("dag")
        self.generic_visit(node)


def _reads(function: Any, name: str) -> Any:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(function))


def self_names(function: Any, *, calls: bool = False) -> Any:
    """Return the attributes of the object that a method reads, or only those that it calls."""
    arguments = (*function.args.posonlyargs, *function.args.args)
    own = arguments[0].arg if arguments else ""
    found = set()
    for node in ast.walk(function):
        target = node.func if calls and isinstance(node, ast.Call) else None if calls else node
        match target:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == own:
                found.add(name)
    return found


def comments_of(text: str) -> Any:
    """Return all comments of a text, in order."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    try:
        return [token.string for token in tokens if token.type == tokenize.COMMENT]
    except (tokenize.TokenError, SyntaxError):
        return []


@functools.cache
def inherited() -> frozenset[str]:
    """Return the methods that modules, layers and containers of torch bring."""
    from torch import nn

    values = vars(nn).values()
    kinds = [kind for kind in values if isinstance(kind, type) and issubclass(kind, nn.Module)]
    return frozenset(name for kind in kinds for name in dir(kind) if callable(getattr(kind, name)))


def direct_calls(function: Any, own: set[str]) -> Any:
    """Return how many calls such as `self.conv(x)` are not calls of the class's own methods."""
    own = own | inherited()
    arguments = (*function.args.posonlyargs, *function.args.args)
    owner = arguments[0].arg if arguments else ""
    count = 0
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                count += name == owner and attribute not in own
            case ast.Call(
                func=ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr=attribute))
            ):
                count += name == owner
    return count


def residuals(function: Any) -> Any:
    """Return how many sums add a value and a call of a layer on it, or a named skip.

    A skip that comes from outside, such as that of an encoder, was not made of the same value.
    """
    given = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    return sum(_is_residual(node, SKIP_NAMES - given) for node in ast.walk(function))


def _is_residual(node: Any, skips: set[str]) -> Any:
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _is_pair(left, right, skips) or _is_pair(right, left, skips)
        case ast.AugAssign(op=ast.Add(), target=ast.Name(), value=ast.Name(id=name)):
            return name in skips
    return False


def _is_pair(name: str, other: ast.expr, skips: set[str]) -> Any:
    if not isinstance(name, ast.Name):
        return False
    if isinstance(other, ast.Name):
        return name.id in skips
    match other:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[first, *_]):
            return any(isinstance(n, ast.Name) and n.id == name.id for n in ast.walk(first))
    return False


def statements(function: Any) -> Any:
    """Return how many statements a function has, its docstring not counted."""
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return count - (ast.get_docstring(function) is not None)


def style(before: str, after: str, described: list[str]) -> Any:
    """Measure the flows of a file against the forwards they replace."""
    old, new = classes_of(ast.parse(before)), classes_of(ast.parse(after))
    ratios, direct, calls, sums, also, handed, named = [], 0, 0, 0, 0, 0, 0
    for name in described:
        mine = {n.name: n for n in old[name].body if isinstance(n, ast.FunctionDef)}
        flow = {n.name: n for n in new[name].body if isinstance(n, ast.FunctionDef)}
        if "forward" not in mine or "flow" not in flow:
            continue
        known = set(methods_of(new, name))
        if statements(mine["forward"]) >= 4:
            ratios.append(statements(flow["flow"]) / statements(mine["forward"]))
        direct += direct_calls(flow["flow"], known)
        calls += direct_calls(mine["forward"], known)
        between = chains.handed_on(mine["forward"], known | inherited())
        handed += between
        named += min(between, chains.named_on_the_way(flow["flow"]))
        found = residuals(mine["forward"])
        text = ast.unparse(flow["flow"])
        sums += found
        also += min(found, text.count(".also(") + text.count(".also_with("))
    return {
        "ratios": ratios,
        "direct": direct,
        "calls": calls,
        "residuals": sums,
        "also": also,
        "handed": handed,
        "named": named,
    }


def median(values: list[float]) -> Any:
    """Return the median, or None of nothing."""
    return statistics.median(values) if values else None
