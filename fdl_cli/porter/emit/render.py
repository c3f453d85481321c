"""Text of an expression: unchanged parts as in the source, flow words where they were added."""

import re
from collections.abc import Mapping
from typing import final

from fdl_cli.porter.emit.joining import joined
from fdl_cli.porter.ir.expressions import STEP_WORDS, Expr, place
from fdl_cli.porter.ir.source import Span

# From loosest to tightest, as Python's grammar has them.
_PRECEDENCE = {
    "lambda": 0, "assignment": 0, "conditional": 1, "or": 2, "and": 3, "not": 4, "compare": 5,
    "|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "//": 11,
    "%": 11, "@": 11, "unary": 12, "**": 13,
}  # fmt: skip
_ATOM = 20
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_STRING = re.compile(
    r'''"""(?:\\[\s\S]|[^\\])*?"""|\'\'\'(?:\\[\s\S]|[^\\])*?\'\'\'|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\#[^\r\n]*'''
)


@final
class Renderer:
    """Writes expressions of one file; `names` says how our own names are written in it.

    With `joins`, an expression of several source lines is written on one, if nothing is lost.
    """

    def __init__(self, text: str, names: Mapping[str, str], *, joins: bool = False) -> None:
        self.text = text
        self.names = names
        self.joins = joins

    def flat(self, expr: Expr) -> str:
        """Return the expression on one line, as far as the source itself allows."""
        if expr.span is not None:
            text = self._filled(expr, expr.span)
            return joined(text) if self.joins else text
        return self._made(expr)

    def operand(self, expr: Expr, level: int) -> str:
        """Return the expression in parentheses when it binds looser than its surroundings."""
        text = self.flat(expr)
        loose = precedence(expr) < level or (level >= _ATOM and _is_number(expr))
        loose = loose or (level > 0 and expr.op == "tuple" and not _is_enclosed(text))
        return f"({text})" if loose or breaks_outside(text) else text

    def head(self, expr: Expr) -> str:
        """Return the expression as something that a step can be applied to."""
        return self.operand(expr, _ATOM)

    def arguments(self, expr: Expr, labels: tuple[str, ...], *, ours: bool = False) -> list[str]:
        """Return the arguments of a made call: all its parts but the first.

        Unpacked ones carry their stars in the source. Keywords of the source keep their spacing;
        `ours` are not from there.
        """
        texts = []
        for label, part in zip(labels, expr.parts[1:], strict=True):
            text = self.operand(part, 1)
            if label == "**":
                text = f"**{text}"
            elif label and label != "*":
                sign = "=" if ours else self._equals(expr, part)
                text = f"{label}{sign}{text}"
            texts.append(text)
        return texts

    def _equals(self, expr: Expr, part: Expr) -> str:
        """Return the sign between a keyword and its value, spaced as the author does it."""
        call = place(expr)
        if part.span is None or call is None or not call.start < part.span.start < call.end:
            return "="
        return " = " if self.text[: part.span.start].endswith(" = ") else "="

    def step(self, expr: Expr) -> list[tuple[str, list[str]]]:
        """Return the additions of a made step to its receiver: method names with their arguments."""
        match expr.op:
            case "through":
                labels = ("", *expr.labels)
                return [("through", self.arguments(expr, labels))]
            case "also" | "tag" | "using":
                return [(expr.op, self.arguments(expr, expr.labels))]
            case "also_with":
                return [("also_with", self.arguments(expr, expr.labels, ours=True))]
            case "merge":
                return self._merge(expr)
            case _:
                return self._over(expr)

    def application(self, expr: Expr) -> tuple[str, list[str]]:
        """Return the name and the arguments of a call that is no method of a value."""
        callee = self.operand(expr.parts[0], 1)
        return self.names["call"], [callee, *self.arguments(expr, expr.labels)]

    def _over(self, expr: Expr) -> list[tuple[str, list[str]]]:
        """Return the steps of words that run stages several times, or one of several."""
        first, *others = expr.parts[1:]
        if expr.op == "switch":
            return [("switch", [self.operand(first, 1), *(self.operand(e, 1) for e in others)])]
        named = dict(zip(expr.labels, expr.parts[1:], strict=True))
        along = [self.operand(named["dim"], 1)]
        if "out_dim" in named:
            along.append(f"out_dim={self.operand(named['out_dim'], 1)}")
        started = [self.operand(first, 1)]
        if expr.op == "scan":
            started.append(self.operand(others[0], 1))
        if "readout" in named:
            started.append(f"readout={self.operand(named['readout'], 1)}")
        return [(expr.op, started), (expr.name or "along", along)]

    def _merge(self, expr: Expr) -> list[tuple[str, list[str]]]:
        ways = list(zip(expr.labels, expr.parts[1:], strict=True))
        stages = [self.operand(part, 1) for label, part in ways if not label]
        named = {label: f"{label}={self.operand(part, 1)}" for label, part in ways if label}
        last = [named.pop("last")] if "last" in named else []
        # `sum` is Python's own: it takes the list of values as it is.
        made = f"({', '.join(named.values())})"
        merge = "sum" if expr.name == "sum" else self.names[expr.name] + made
        split = [("split", stages)] if stages else []
        return [*split, ("merge", [merge, *last])]

    def _made(self, expr: Expr) -> str:
        match expr.op:
            case "name" | "constant":
                return expr.name
            case word if word in STEP_WORDS:
                steps = "".join(f".{n}({', '.join(a)})" for n, a in self.step(expr))
                return self.head(expr.parts[0]) + steps
            case "apply":
                name, texts = self.application(expr)
                return f"{name}({', '.join(texts)})"
            case "attribute":
                return f"{self.head(expr.parts[0])}.{expr.name}"
            case "call":
                return (
                    f"{self.head(expr.parts[0])}({', '.join(self.arguments(expr, expr.labels))})"
                )
            case "tuple":
                inside = ", ".join(self.operand(part, 1) for part in expr.parts)
                return f"({inside},)" if len(expr.parts) == 1 else f"({inside})"
            case "conditional":
                test, then, other = expr.parts
                texts = [self.operand(then, 2), self.operand(test, 2), self.operand(other, 1)]
                return f"{texts[0]} if {texts[1]} else {texts[2]}"
            case _:
                return self._operator(expr)

    def _operator(self, expr: Expr) -> str:
        level = precedence(expr)
        match expr.op:
            case "lambda" | "assignment":
                head = f"lambda {expr.name}:" if expr.op == "lambda" else f"{expr.name} :="
                return f"{head} {self.operand(expr.parts[0], 1)}"
            case "boolean":
                return f" {expr.name} ".join(self.operand(part, level + 1) for part in expr.parts)
            case "binary" | "compare":
                # A comparison of a comparison would be a chain.
                first = level + (expr.op == "compare")
                left, right = expr.parts
                return f"{self.operand(left, first)} {expr.name} {self.operand(right, level + 1)}"
            case _:
                raise AssertionError(expr.op)

    def _filled(self, expr: Expr, span: Span) -> str:
        """Return the source of a node with the present parts in the places of the old ones."""
        if len(expr.holes) != len(expr.parts):
            return self.text[span.start : span.end]
        pieces: list[str] = []
        at = span.start
        for hole, part in sorted(zip(expr.holes, expr.parts, strict=True), key=lambda p: p[0]):
            start, end = hole.start, hole.end
            if part.span == hole:
                text = self.flat(part)
            else:
                text = self.operand(part, self._level(expr, part))
                start, end = self._bare(at, start, end, text, span)
            pieces += [self.text[at:start], text]
            at = end
        pieces.append(self.text[at : span.end])
        return "".join(pieces)

    def _level(self, expr: Expr, part: Expr) -> int:
        """Return how tightly a new part must bind at its new place."""
        match expr.op:
            case "attribute":
                return _ATOM
            case "call":
                return _ATOM if expr.parts[0] is part else 1
            case "index":
                return _ATOM if expr.parts[0] is part else 0
            case "binary":
                return precedence(expr) + (0 if expr.parts[0] is part else 1)
            case "unary" | "compare" | "boolean":
                return precedence(expr) + 1
            case "conditional":
                return 2
            case _:
                return 1

    def _bare(self, low: int, start: int, end: int, text: str, span: Span) -> tuple[int, int]:
        """Widen a place over parentheses which the new text does not need."""
        before, after = self.text[low:start], self.text[end : span.end]
        opened, closed = before.rstrip(), after.lstrip()
        if not opened.endswith("(") or not closed.startswith(")") or not text.endswith((")", "]")):
            return start, end
        outer = opened[:-1].rstrip()
        if outer[-1:].isalnum() or outer[-1:] in {"_", ")", "]"}:
            return start, end
        if not outer and low > span.start:
            return start, end
        if not outer and low == span.start and span.start != low + len(before) - len(opened):
            pass
        return low + len(opened) - 1, end + len(after) - len(closed) + 1


def precedence(expr: Expr) -> int:
    """Return how tightly an expression binds; atoms, calls and steps bind tightest."""
    match expr.op:
        case "binary" | "boolean":
            return _PRECEDENCE[expr.name]
        case "unary":
            return _PRECEDENCE["not" if expr.name == "not" else "unary"]
        case "compare" | "conditional" | "lambda" | "assignment":
            return _PRECEDENCE[expr.op]
        case "other":
            return 0
        case "starred":
            return 1
        case "tuple" if expr.span is not None:
            # The span of a tuple may or may not hold its parentheses: see `Renderer.operand`.
            return _ATOM
        case _:
            return _ATOM


def _is_number(expr: Expr) -> bool:
    return expr.op == "constant" and expr.name[:1].isdigit()


def _is_enclosed(text: str) -> bool:
    """Return True if a pair of brackets holds the whole text: `(a, b)`, but not `(a), (b)`."""
    depth = 0
    bare = _STRING.sub(_blank, text)
    for position, char in enumerate(bare):
        if char in _OPENERS:
            depth += 1
        elif char in _OPENERS.values():
            depth -= 1
        if depth == 0:
            return position == len(bare) - 1 and char == ")"
    return False


def _blank(found: "re.Match[str]") -> str:
    return "#" if found.group()[0] == "#" else "s"


def breaks_outside(text: str) -> bool:
    """Return True if a text has a line break outside all brackets."""
    if "\n" not in text and "\r" not in text:
        return False
    depth = 0
    bare = _STRING.sub(_blank, text)
    for position, char in enumerate(bare):
        if char in _OPENERS:
            depth += 1
        elif char in _OPENERS.values():
            depth -= 1
        elif char in "\r\n" and depth == 0 and bare[position - 1 : position] not in {"\\", "\r"}:
            return True
    return False
