"""Flow words for every call of a submodule or of a plain function.

Before: self.conv(x), rearrange(x, "b c -> c b"), self.encoder(input_ids=ids)
After:  x.through(self.conv), x.through(rearrange, "b c -> c b"), call(self.encoder, input_ids=ids)
A call of the forward above is a call of the flow above: super().flow(x).
"""

import re
from dataclasses import replace

from fdl_cli.porter.ir.expressions import FLOW_WORDS, Expr, place, rebuilt, walk
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.knowledge.torch_names import MAKE_TENSORS
from fdl_cli.porter.rewrite.method_chain import straighten

_COMPUTING = frozenset({"torch", "method", "submodule", "function"})
_ASKED = frozenset({"flow", "result"})
_FLOWS = frozenset({"flow", "result", "flows", "parameter", "parameters"})
_SYMBOLS = re.compile(r"is not|not in|\S+")
_PAIR = 2
_VERBATIM = frozenset({"format", "other"})


def write_words(block: Block) -> Block:
    """Return the block with flow words in the place of calls."""
    return tuple(_statement(stmt) for stmt in block)


def _statement(stmt: Stmt) -> Stmt:
    exprs = tuple(to_words(expr) for expr in stmt.exprs)
    targets = tuple(to_words(target) for target in stmt.targets)
    body, orelse = write_words(stmt.body), write_words(stmt.orelse)
    pairs = zip((*exprs, *targets), (*stmt.exprs, *stmt.targets), strict=True)
    inner = zip((*body, *orelse), (*stmt.body, *stmt.orelse), strict=True)
    if all(new is old for new, old in pairs) and all(new is old for new, old in inner):
        return stmt
    return replace(stmt, exprs=exprs, targets=targets, body=body, orelse=orelse)


def to_words(expr: Expr) -> Expr:
    """Return the expression with flow words in the place of calls."""
    if expr.op in _VERBATIM:
        return expr
    if expr.asked == "text":
        expr = replace(expr, asked="")
    if expr.asked:
        return {"which": _which, "mapped": _mapped}.get(expr.asked, _asked)(expr)
    inner = rebuilt(expr, tuple(to_words(part) for part in expr.parts))
    match inner.op, inner.role:
        case "tuple", "function":
            return replace(inner, span=None, origin=place(expr))
        case "set" | "comprehension", "function":
            return _copied_set(inner)
        case "call", "value":
            return straighten(_value_of(inner))
        case "call", "class":
            return _class_of(inner)
        case "call", "own":
            return rebuilt(inner, (_flow_of_base(inner.parts[0]), *inner.parts[1:]))
        case "call", "submodule" | "function":
            return straighten(_word(inner))
        case _:
            return straighten(inner) if inner is not expr else expr


def _copied_set(expr: Expr) -> Expr:
    """Write a set that others get as one of each call; lists and dicts are that in any case."""
    made = Expr(op="name", name="set", kind="python")
    parts = (made, replace(expr, role=""))
    return Expr(op="apply", parts=parts, labels=("",), kind="result", origin=place(expr))


def _asked(expr: Expr) -> Expr:
    """Write that a value is needed: `(x.sum() > 0).through(bool)`."""
    if expr.op == "compare" and len(expr.parts) > _PAIR:
        return _chained(expr)
    inner = to_words(replace(expr, asked=""))
    answer = Expr(op="name", name=expr.asked, kind="python")
    computed = any(node.role in _COMPUTING or node.op in FLOW_WORDS for node in walk(inner))
    # A value that may be None, or plain Python, has no `through`.
    computed = computed and inner.kind == "flow"
    return Expr(
        op="through" if computed else "apply",
        parts=(inner, answer) if computed else (answer, inner),
        labels=() if computed else ("",),
        kind="size",
        origin=place(expr),
    )


def _chained(expr: Expr) -> Expr:
    """Write `a < f(x) < b`: each pair is compared separately, `f(x)` is computed once."""
    first, *others = expr.parts
    names = (*expr.labels, "")
    pairs: list[Expr] = []
    for symbol, right, name in zip(_SYMBOLS.findall(expr.name), others, names, strict=True):
        held, after = right, right
        if name and right.op not in {"name", "constant"}:
            held = Expr(
                op="assignment", name=name, parts=(right,), kind=right.kind, origin=place(right)
            )
            after = Expr(op="name", name=name, kind=right.kind)
        kinds = {first.kind, right.kind}
        pair = Expr(
            op="compare",
            name=symbol,
            parts=(first, held),
            kind="flow" if kinds & _FLOWS else "python",
            origin=place(right),
        )
        pairs.append(to_words(replace(pair, asked="bool") if kinds & _FLOWS else pair))
        first = after
    return Expr(op="boolean", name="and", parts=tuple(pairs), kind="python", origin=place(expr))


def _which(expr: Expr) -> Expr:
    """Write `a or b` as `a if a.through(bool) else b`: the result of a step is not the value itself."""
    first, *rest = expr.parts
    name, *names = expr.labels
    more = "which" if names else ""
    other = (
        rest[0]
        if len(rest) == 1
        else replace(expr, parts=tuple(rest), labels=tuple(names), asked=more)
    )
    held, test = first, first
    if first.op != "name":
        held = Expr(op="name", name=name, kind=first.kind)
        test = Expr(
            op="assignment", name=name, parts=(first,), kind=first.kind, origin=place(first)
        )
    asked = to_words(replace(test, asked="bool") if first.kind in _ASKED else test)
    ways = (held, to_words(other)) if expr.name == "or" else (to_words(other), held)
    return Expr(op="conditional", parts=(asked, *ways), kind=expr.kind, origin=place(expr))


def _mapped(expr: Expr) -> Expr:
    """Write a function for `map` so that each of its calls is a step."""
    items = Expr(op="name", name="*items", kind="python")
    inner = Expr(
        op="apply",
        parts=(to_words(replace(expr, asked="")), items),
        labels=("*",),
        kind="result",
        origin=place(expr),
    )
    return Expr(op="lambda", name="*items", parts=(inner,), kind="python", origin=place(expr))


def _value_of(expr: Expr) -> Expr:
    """Write `x.item()` as a step: `x.through(torch.Tensor.item)`."""
    callee, *arguments = expr.parts
    receiver = callee.parts[0]
    method = Expr(op="name", name=f"{callee.maker}.Tensor.{callee.name}", kind="python")
    is_flow = receiver.kind == "flow"
    return Expr(
        op="through" if is_flow else "apply",
        parts=(receiver, method, *arguments) if is_flow else (method, receiver, *arguments),
        labels=expr.labels if is_flow else ("", *expr.labels),
        kind=expr.kind,
        origin=place(expr),
    )


def _class_of(expr: Expr) -> Expr:
    """Write `type(x)` as `x.__class__`: that of the value, not of the handle that stands for it."""
    return Expr(
        op="attribute",
        parts=expr.parts[1:],
        name="__class__",
        kind=expr.kind,
        origin=place(expr),
    )


def _flow_of_base(callee: Expr) -> Expr:
    """Return `super().flow` for `super().forward`; other methods keep their names."""
    if callee.op != "attribute" or callee.name != "forward":
        return callee
    receiver = callee.parts[0]
    if receiver.op != "call":
        return callee
    given = ", ".join(part.name for part in receiver.parts[1:])
    return Expr(op="name", name=f"super({given}).flow", kind=callee.kind, origin=place(callee))


def _computes(callee: Expr) -> bool:
    """Return True if finding out whom a call calls does something: `self.pick()(x)`."""
    return any(
        node.op in FLOW_WORDS
        or node.op == "assignment"
        or (node.op == "call" and node.role != "python")
        for node in walk(callee)
    )


def _word(expr: Expr) -> Expr:
    callee, *arguments = expr.parts
    # A later tensor value may be plain Python in some calls: `if kernel is None: kernel = [1, 2, 1]`.
    flows = bool(arguments) and expr.labels[0] == "" and arguments[0].kind == "flow"
    # `pick()(self.a(x))` picks before it computes the argument.
    flows = flows and (arguments[0].op == "name" or not _computes(callee))
    if flows and callee.dotted not in MAKE_TENSORS:
        return Expr(
            op="through",
            parts=(arguments[0], callee, *arguments[1:]),
            labels=expr.labels[1:],
            kind=expr.kind,
            origin=place(expr),
        )
    return Expr(
        op="apply",
        parts=expr.parts,
        labels=expr.labels,
        kind=expr.kind,
        origin=place(expr),
    )
