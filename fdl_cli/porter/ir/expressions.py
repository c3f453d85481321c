"""Expressions of a forward as frozen trees: the source's own parts, and the flow words put in.

Invariant: `span` is the place in the source while the node still reads as it was written; a node
made by a plan has no span, and is written out from its parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, final

from fdl_cli.porter.ir.source import Span

Op = Literal[
    "name", "constant", "attribute", "index", "slice", "call", "binary", "unary", "compare",
    "boolean", "conditional", "tuple", "list", "set", "dict", "starred", "lambda",
    "comprehension", "format", "assignment", "other",
    # the flow vocabulary
    "through", "apply", "also", "also_with", "merge", "tag", "using",
    "scan", "map", "switch",
]  # fmt: skip

Kind = Literal[
    "flow",
    "result",
    "flows",
    "maybe",
    "parameter",
    "parameters",
    "module",
    "modules",
    "size",
    "python",
    "none",
]
"""The kinds of values. `flow` is surely a traced value, `result` what a step gives, which may be None;
`flows` holds traced values, `maybe` may be one, or anything else; `parameter` is a raw parameter,
`parameters` may hold some; then a submodule or a container of them, a number taken from a shape,
plain Python, and None."""

Role = Literal["", "submodule", "function", "torch", "method", "own", "python", "state", "value",
               "class", "made"]  # fmt: skip
"""Whom a call calls: a submodule, a function of the script or of a library, the torch API, a
method of a tensor, a method of the class itself, or plain Python; `value` is a method that needs
the value of its tensor, `class` is `type(x)`; `state` is no call but the read
of an attribute that methods change."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """One node; `parts` are in the order in which Python evaluates them.

    A call's parts are the callee and its arguments, `labels` names each argument: empty for a
    positional one, `*` and `**` for unpacking, else the keyword. `through` has the value, the
    stage and further arguments; `also` the value and the stage; `also_with` and `merge` the value
    and the branches (`labels` are the keywords); `tag` and `using` the value and the names, in
    quotes; a stage that is a chain is a tuple without span.
    `scan` has the value, the cell, the state and by its labels `dim`, `out_dim` and `readout`, and is
    named by its result (`along` or `last`); `map` the value, the stage and the same labels; `switch`
    the value, the index and the list of branches.
    A comprehension is named by what it makes (`list`, `generator` ...); its labels say what each
    part is: `in` (iterable), `for` (target), `if`, `key`, and empty for the element.
    `format`, `lambda` and `other` stay verbatim; their parts are the names that they read.
    `holes` are the places of the parts in the source, whatever their present text.
    `dotted` is the full name of what an import brought; `maker` that of what constructed an
    attribute of the object. `asked` names the form in which Python needs a tensor's value: `bool`, where
    a branch depends on it; `which`, where `and` or `or` gives one of its parts, whose names are the
    labels; `mapped`, where Python calls it with the items of containers; `text`, where it is formatted.
    `origin` is the place of the source which a made node stands for; it orders effects.
    """

    op: Op
    parts: tuple["Expr", ...] = ()
    name: str = ""
    labels: tuple[str, ...] = ()
    span: Span | None = None
    origin: Span | None = None
    holes: tuple[Span, ...] = ()
    kind: Kind = "maybe"
    role: Role = ""
    dotted: str = ""
    maker: str = ""
    asked: str = ""


FLOW_WORDS: frozenset[str] = frozenset(
    {
        "through",
        "apply",
        "also",
        "also_with",
        "merge",
        "tag",
        "using",
        "scan",
        "map",
        "switch",
    }
)
# The words that continue a chain: their first part is the value so far.
STEP_WORDS: frozenset[str] = FLOW_WORDS - {"apply"}
# How many parts are evaluated whatever the others say.
_ALWAYS: dict[str, int] = {"conditional": 1, "boolean": 1, "compare": 2}
_SCOPES: frozenset[str] = frozenset({"lambda", "comprehension", "format", "other"})


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the node and everything under it, in evaluation order of the parts, parents first."""
    yield expr
    for part in expr.parts:
        yield from walk(part)


def rebuilt(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """Return the node over other parts; the very same object when nothing changed."""
    if all(new is old for new, old in zip(parts, expr.parts, strict=True)):
        return expr
    return replace(expr, parts=parts)


def count_name(expr: Expr, name: str) -> int:
    """Count how often a variable is read."""
    return sum(1 for node in walk(expr) if node.op == "name" and node.name == name)


def place(expr: Expr) -> Span | None:
    """Return where a node comes from in the source."""
    return expr.span if expr.origin is None else expr.origin


def inside_scope(expr: Expr, name: str) -> bool:
    """Return True if a variable is read inside a lambda or a comprehension."""
    return any(
        node.op in _SCOPES and any(count_name(part, name) for part in node.parts)
        for node in walk(expr)
    )


def may_be_skipped(expr: Expr, name: str) -> bool:
    """Return True if a variable is read where only one outcome of a condition gets to."""
    always = _ALWAYS.get(expr.op, len(expr.parts))
    sometimes = expr.parts[always:]
    return any(count_name(part, name) for part in sometimes) or any(
        may_be_skipped(part, name) for part in expr.parts[:always]
    )


def substitute(expr: Expr, name: str, value: Expr) -> Expr:
    """Put a value in the place of every read of a variable."""
    if expr.op == "name":
        return value if expr.name == name else expr
    return rebuilt(expr, tuple(substitute(part, name, value) for part in expr.parts))


def names_read(expr: Expr) -> frozenset[str]:
    """Return the variables that are read."""
    return frozenset(node.name for node in walk(expr) if node.op == "name")


def has_flow_word(expr: Expr) -> bool:
    """Return True if the vocabulary is used anywhere inside."""
    return any(node.op in FLOW_WORDS for node in walk(expr))
