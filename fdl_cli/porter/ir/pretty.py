"""Every IR as text: the understood program (`ir.txt`) and the plan (`plan.txt`)."""

from collections.abc import Iterator, Sequence
from typing import final

from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.ir.symbols import MethodIR, ModelIR, ScriptIR


def script_text(script: ScriptIR) -> str:
    """Return everything understood about a file as text."""
    lines: list[str] = []
    for model in script.models:
        lines += [*_model_lines(model), ""]
    lines += [
        f"value {value.name} = torch.nn.Sequential of {value.stages}" for value in script.values
    ]
    return "\n".join(lines).rstrip("\n") + "\n" if lines else ""


def _model_lines(model: ModelIR) -> Iterator[str]:
    facts = model.facts
    bases = ", ".join(f"{base.name} [{base.kind}]" for base in facts.bases)
    yield f"model {facts.name}({bases})"
    for fact in facts.attributes:
        source = fact.text if len(fact.text) <= 70 else fact.text[:67] + "..."
        yield f"  {fact.kind} self.{fact.name} = {source}".rstrip(" =")
    for method in model.methods:
        yield f"  {method.name}({', '.join(method.params)})"
        for line in Listing(method.self_name).block(method.body):
            yield f"    {line}"
    for reason in model.refusals:
        yield "  refused " + reason_text(reason)


def reason_text(reason: Reason) -> str:
    """Return a reason in one line."""
    return f"line {reason.line}: {reason.code} {reason.message}"


@final
class Listing:
    """Numbers the operations of one method in the order in which they run."""

    def __init__(self, self_name: str) -> None:
        self.self_name = self_name
        self.number = 0
        self.lines: list[str] = []

    def block(self, block: Block) -> list[str]:
        """Return the lines of a block, nested ones indented."""
        lines: list[str] = []
        for stmt in block:
            outer, self.lines = self.lines, []
            text = self._statement(stmt)
            lines += [*self.lines, text]
            self.lines = outer
            lines += [f"  {line}" for line in self.block(stmt.body)]
            if stmt.orelse:
                lines += ["else", *(f"  {line}" for line in self.block(stmt.orelse))]
        return lines

    def _statement(self, stmt: Stmt) -> str:
        values = ", ".join(self.value(expr) for expr in stmt.exprs)
        targets = ", ".join(self._target(target) for target in stmt.targets)
        match stmt.op:
            case "assign":
                return f"{targets} = {values}"
            case "augment":
                return f"{targets} {stmt.name}= {values}"
            case "for":
                return f"for {targets} in {values}"
            case "docstring":
                return "docstring"
            case _:
                return f"{stmt.op} {values}".rstrip()

    def _target(self, target: Expr) -> str:
        if target.op in {"tuple", "list"}:
            return "(" + ", ".join(self._target(part) for part in target.parts) + ")"
        return target.name if target.op == "name" else self.value(target)

    def value(self, expr: Expr) -> str:
        """Return the name of a value, listing the operations that make it."""
        text = self._inline(expr)
        if text is not None:
            return text
        line = self._operation(expr)
        self.number += 1
        self.lines.append(f"v{self.number} : {expr.kind} = {line}")
        return f"v{self.number}"

    def _inline(self, expr: Expr) -> str | None:
        match expr.op:
            case "name" | "constant":
                return expr.name
            case "attribute":
                return self._dotted(expr)
            case "format" | "other":
                return f"<{expr.op}>"
            case "starred":
                return "*" + self.value(expr.parts[0])
            case "tuple" | "list" | "set" | "dict" | "slice":
                inside = ", ".join(self.value(part) for part in expr.parts)
                return f"{expr.op}({inside})"
            case _:
                return None

    def _dotted(self, expr: Expr) -> str | None:
        if expr.dotted:
            return expr.dotted
        owner = expr.parts[0]
        if owner.op == "name" and owner.name == self.self_name:
            return f"{owner.name}.{expr.name}"
        return None

    def _operation(self, expr: Expr) -> str:
        if expr.op == "call":
            return self._call(expr)
        parts = " ".join(self.value(part) for part in expr.parts)
        return f"{expr.op} {expr.name} {parts}".replace("  ", " ")

    def _call(self, expr: Expr) -> str:
        callee, *arguments = expr.parts
        texts = []
        if expr.role == "method":
            texts = [callee.name, self.value(callee.parts[0])]
        else:
            texts = [callee.dotted or self.value(callee)]
        for label, argument in zip(expr.labels, arguments, strict=True):
            value = self.value(argument)
            texts.append(f"{label}={value}" if label and not label.startswith("*") else value)
        return " ".join((expr.role or "call", *texts))


def reading(name: str, methods: Sequence[tuple[MethodIR, Block]]) -> str:
    """Return how a plan reads: one line per statement, steps separated by dots."""
    lines = []
    for method, block in methods:
        title = name if method.name == "forward" else f"{name}.{method.name}"
        lines.append(f"{title}:")
        lines += [f"  {line}" for line in _block_reading(block)]
    return "\n".join(lines)


def _block_reading(block: Block) -> Iterator[str]:
    for stmt in block:
        if stmt.op == "docstring":
            continue
        values = ", ".join(_steps(expr) for expr in stmt.exprs)
        targets = ", ".join(_steps(target) for target in stmt.targets)
        if stmt.op in {"assign", "augment"}:
            yield f"{targets} {stmt.name if stmt.op == 'augment' else ''}= {values}"
        elif stmt.op == "for":
            yield f"for {targets} in {values}"
        else:
            yield f"{stmt.op} {values}".rstrip()
        yield from (f"  {line}" for line in _block_reading(stmt.body))
        if stmt.orelse:
            yield "else"
            yield from (f"  {line}" for line in _block_reading(stmt.orelse))


def _steps(expr: Expr) -> str:
    match expr.op:
        case "through":
            extra = "".join(f", {_steps(part)}" for part in expr.parts[2:])
            return f"{_steps(expr.parts[0])} · through {_steps(expr.parts[1])}{extra}"
        case "also":
            return f"{_steps(expr.parts[0])} · also {_steps(expr.parts[1])}"
        case "tag" | "using":
            given = ", ".join(_steps(part) for part in expr.parts[1:])
            return f"{_steps(expr.parts[0])} · {expr.op} {given}"
        case "also_with":
            ways = zip(expr.labels, expr.parts[1:], strict=True)
            text = ", ".join(f"{label} {_steps(part)}" for label, part in ways)
            return f"{_steps(expr.parts[0])} · also_with {text}"
        case "merge":
            ways = zip(expr.labels, expr.parts[1:], strict=True)
            text = " | ".join(_steps(part) for label, part in ways if not label)
            split = f" · split {text}" if text else ""
            return f"{_steps(expr.parts[0])}{split} · merge {expr.name}"
        case "scan" | "map" | "switch":
            given = ", ".join(map(_steps, expr.parts[1:]))
            result = " · last" if expr.name == "last" else ""
            return f"{_steps(expr.parts[0])} · {expr.op} {given}{result}"
        case "apply":
            return f"call {', '.join(_steps(part) for part in expr.parts)}"
        case _:
            return _plain(expr)


def _plain(expr: Expr) -> str:
    match expr.op:
        case "name" | "constant":
            return expr.name
        case "attribute":
            return f"{_steps(expr.parts[0])}.{expr.name}"
        case "binary":
            return f"({_steps(expr.parts[0])} {expr.name} {_steps(expr.parts[1])})"
        case "call":
            callee, *arguments = expr.parts
            return f"{_steps(callee)}({', '.join(_steps(part) for part in arguments)})"
        case "index":
            return f"{_steps(expr.parts[0])}[{_steps(expr.parts[1])}]"
        case "slice":
            return ":".join(_steps(part) for part in expr.parts) or ":"
        case "format" | "other":
            return f"<{expr.op}>"
        case _:
            inside = ", ".join(_steps(part) for part in expr.parts)
            return f"{expr.op} {expr.name}({inside})".replace(" (", "(")
