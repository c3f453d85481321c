"""A loop that hands a value through all modules of a list.

Before: for layer in self.layers: x = layer(x)
After:  x = x.through(self.layers)
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, names_read
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.plan.pattern import Case, Match

CASES = (
    Case(
        before="""
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        """,
        after="""
            def flow(self, x):
                return x.through(self.layers)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                x = self.a(x)
                for i in range(len(self.layers)):
                    x = self.layers[i](x)
                return self.b(x)
        """,
        after="""
            def flow(self, x):
                return x.through(self.a).through(self.layers).through(self.b)
        """,
    ),
    # What is no container, but gives its modules one by one.
    Case(
        before="""
            def forward(self, x):
                for layer in self.layers.children():
                    x = layer(x)
                return x
        """,
        after="""
            def flow(self, x):
                return x.through(tuple(self.layers.children()))
        """,
    ),
)
LEFT_ALONE = (
    # Every round needs another value as well.
    Case(
        before="""
            def forward(self, x, y):
                for layer in self.mixers:
                    x = layer(x, y)
                return x
        """,
        after="""
            def flow(self, x, y):
                for layer in self.mixers:
                    x = x.through(layer, y)
                return x
        """,
    ),
    # The values between the modules are wanted.
    Case(
        before="""
            def forward(self, x):
                seen = []
                for layer in self.layers:
                    x = layer(x)
                    seen.append(x)
                return seen
        """,
        after="""
            def flow(self, x):
                seen = []
                for layer in self.layers:
                    x = x.through(layer)
                    seen.append(x)
                return seen
        """,
    ),
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a loop over modules as one step."""
    loop = tail[-1]
    if loop.op != "for" or loop.orelse or len(loop.body) != 1:
        return None
    step = loop.body[0]
    if step.op != "assign" or len(step.targets) != 1 or step.targets[0].op != "name":
        return None
    value = step.exprs[0]
    if value.op != "through" or len(value.parts) != 2 or value.parts[0].op != "name":
        return None
    if value.parts[0].name != step.targets[0].name:
        return None
    modules = modules_of(loop.targets[0], loop.exprs[0], value.parts[1])
    loop_names = names_read(loop.targets[0])
    if modules is None or loop_names & live or step.targets[0].name in loop_names:
        return None
    joint = replace(value, parts=(value.parts[0], modules))
    stmt = Stmt(op="assign", targets=step.targets, exprs=(joint,), sources=loop.sources)
    return Match(count=1, stmt=replace(stmt, sources=(*loop.sources,), name="loop"))


def modules_of(target: Expr, iterable: Expr, stage: Expr) -> Expr | None:
    """Return the container whose modules a loop runs through, one by one, in order."""
    if target.op == "name" and stage.op == "name" and stage.name == target.name:
        return iterable if _is_container(iterable) else _in_order(iterable)
    if target.op == "tuple" and _is_builtin(iterable, "enumerate") and len(target.parts) == 2:
        item = target.parts[1]
        if item.op == "name" and stage.op == "name" and stage.name == item.name:
            return iterable.parts[1] if _is_container(iterable.parts[1]) else None
    if target.op == "name" and stage.op == "index" and _is_builtin(iterable, "range"):
        return _indexed(target, iterable, stage)
    return None


def _in_order(iterable: Expr) -> Expr | None:
    """Return what is not a container of modules but gives some, one by one, as a tuple of them."""
    is_variable = iterable.op == "name" and iterable.kind in {"python", "modules"}
    if not is_variable and not (_gives_modules(iterable) and len(iterable.parts) == 1):
        return None
    made = Expr(op="name", name="tuple", kind="python")
    return Expr(op="call", parts=(made, iterable), labels=("",), kind="modules", role="python")


def _gives_modules(expr: Expr) -> bool:
    """Say whether a call is that of `children` or `values`, without arguments."""
    if expr.op != "call" or expr.kind != "modules" or expr.parts[0].op != "attribute":
        return False
    return expr.parts[0].name in {"children", "values"}


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
