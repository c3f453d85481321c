"""Abstract interpretation of expressions: syntax becomes IR, and every node gets its kind."""

import ast
from dataclasses import replace
from typing import final

from fdl_cli.porter.analyse.binding import bind, bind_loop
from fdl_cli.porter.analyse.calls import classify
from fdl_cli.porter.analyse.environment import ATTRIBUTE_KINDS, FLOWING, MAY_FLOW, Environment
from fdl_cli.porter.analyse.identity import asks_of_objects, question_of_objects
from fdl_cli.porter.analyse.kinds import arithmetic_kind, container_kind, stored_kind
from fdl_cli.porter.analyse.made import is_formatted, made_call
from fdl_cli.porter.analyse.narrowing import narrowed
from fdl_cli.porter.analyse.nested import argument_names, is_plain
from fdl_cli.porter.analyse.new_objects import handed_on
from fdl_cli.porter.analyse.stores import as_read, is_elsewhere, is_set_here
from fdl_cli.porter.ir.expressions import Expr, Kind, Op, walk
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.knowledge import tensor_methods as methods

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>", ast.UAdd: "+", ast.USub: "-", ast.Invert: "~",
    ast.Not: "not", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_COMPREHENSIONS: dict[type[ast.AST], str] = {
    ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict", ast.GeneratorExp: "generator",
}  # fmt: skip
_IDENTITY = frozenset({"is", "is not", "in", "not in"})


def operator_symbol(node: ast.AST) -> str:
    """Return how an operator is written."""
    return _OPERATORS[type(node)]


@final
class ExpressionReader:
    """Turns expressions of one method into IR, binding and refusing in its environment."""

    def __init__(self, env: Environment) -> None:
        self.env = env

    def read(self, node: ast.expr) -> Expr:
        """Return the IR of an expression."""
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Constant():
                return self._constant(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._index(node)
            case ast.Call():
                return self._call(node)
            case ast.Tuple() | ast.List() | ast.Set():
                return self._sequence(node)
            case ast.Dict():
                return self._dict(node)
            case _:
                return self._operator(node)

    def test(self, node: ast.expr) -> Expr:
        """Read an expression of which Python asks whether it is true."""
        with self.env.test():
            expr = self.read(node)
        if expr.kind not in FLOWING:
            return expr
        if expr.op == "boolean":
            # Python has asked the others already.
            return replace(expr, parts=(*expr.parts[:-1], self._ask(node, expr.parts[-1])))
        return self._ask(node, expr)

    def _ask(self, node: ast.expr, expr: Expr) -> Expr:
        """Note that Python needs the truth of a tensor."""
        chained = expr.op == "compare" and len(expr.parts) > 2
        if expr.kind == "flow" and not chained and not self.env.names.is_own("bool"):
            return replace(expr, asked="bool")
        text = " ".join(self.env.source.slice(self.env.source.span(node)).split())
        self.env.refuse(node.lineno, "FDL301", f"`{text}` depends on the value of a tensor")
        return expr

    def _make(
        self, node: ast.expr, op: Op, parts: tuple[Expr, ...], kind: Kind, name: str = ""
    ) -> Expr:
        span = self.env.source.span(node)
        return Expr(op=op, parts=parts, kind=kind, name=name, span=span, holes=places(parts))

    def _operator(self, node: ast.expr) -> Expr:
        match node:
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp():
                return self._boolean(node)
            case ast.IfExp():
                return self._conditional(node)
            case ast.Starred():
                value = self.read(node.value)
                return self._make(node, "starred", (value,), value.kind)
            case ast.NamedExpr():
                return self._named(node)
            case _:
                return self._scoped(node)

    def _scoped(self, node: ast.expr) -> Expr:
        match node:
            case ast.Lambda():
                return self._lambda(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.JoinedStr():
                return self.verbatim(node, "format")
            case ast.Slice():
                parts = (node.lower, node.upper, node.step)
                read = tuple(self.read(part) for part in parts if part is not None)
                return self._make(node, "slice", read, "python")
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                self.env.refuse(node.lineno, "FDL305", "forward yields or awaits")
            case _:
                kind = type(node).__name__
                self.env.refuse(node.lineno, "FDL318", f"an expression of kind {kind}")
        return self.verbatim(node, "other")

    def verbatim(self, node: ast.expr | ast.stmt, op: Op) -> Expr:
        """Return a node that is never looked into; its parts are the names it reads."""
        names = dict.fromkeys(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        parts = tuple(
            Expr(op="name", name=name, kind=self.env.kinds.get(name, "python")) for name in names
        )
        return Expr(op=op, parts=parts, kind="python", span=self.env.source.span(node))

    def _name(self, node: ast.Name) -> Expr:
        local = self.env.kinds.get(node.id)
        dotted = "" if local is not None else self.env.names.dotted_name(node.id)
        expr = self._make(node, "name", (), local or "python", node.id)
        return Expr(op="name", kind=expr.kind, name=node.id, span=expr.span, dotted=dotted)

    def _constant(self, node: ast.Constant) -> Expr:
        kind: Kind = "none" if node.value is None else "python"
        text = "..." if node.value is Ellipsis else repr(node.value)
        return self._make(node, "constant", (), kind, text)

    def _attribute(self, node: ast.Attribute) -> Expr:
        value = self.read(node.value)
        if is_set_here(self.env.method, node) and is_elsewhere(self.env, value):
            return as_read(value, node.attr, self.env.source.span(node))
        dotted = f"{value.dotted}.{node.attr}" if value.dotted else ""
        kind = "python" if dotted else self._attribute_kind(value, node.attr)
        stored = self.env.is_self(value) and node.attr in self.env.view.stored
        return Expr(
            op="attribute",
            parts=(value,),
            name=node.attr,
            kind=kind,
            span=self.env.source.span(node),
            holes=places((value,)),
            dotted=dotted,
            maker=self.env.torch_name
            if node.attr in methods.VALUE_METHODS
            else self._maker(value, node.attr),
            role="state" if stored else "",
        )

    def _maker(self, value: Expr, name: str) -> str:
        fact = self.env.view.attributes.get(name) if self.env.is_self(value) else None
        return fact.constructor if fact is not None else ""

    def _attribute_kind(self, value: Expr, name: str) -> Kind:
        if self.env.is_self(value):
            fact = self.env.view.attributes.get(name)
            if name in self.env.view.stored:
                first: Kind = ATTRIBUTE_KINDS[fact.kind] if fact is not None else "maybe"
                return self.env.kinds.get(f"self.{name}", stored_kind(first))
            return ATTRIBUTE_KINDS[fact.kind] if fact is not None else "python"
        if value.kind in {"module", "modules"}:
            return "parameter" if name in methods.PARAMETER_ATTRIBUTES else "maybe"
        if value.kind in {"maybe", *FLOWING}:
            if name in methods.SIZE_ATTRIBUTES:
                return "size"
            if name in methods.PYTHON_ATTRIBUTES or name.startswith("is_"):
                return "python"
            return "maybe" if value.kind == "maybe" else "flow"
        return value.kind if value.kind == "size" else "python"

    def _index(self, node: ast.Subscript) -> Expr:
        value, index = self.read(node.value), self.read(node.slice)
        kind: Kind = value.kind
        if kind == "flows":
            kind = "flows" if index.op == "slice" else "flow"
        elif kind == "parameters":
            kind = "parameters" if index.op == "slice" else "parameter"
        elif kind == "modules":
            kind = "modules" if index.op == "slice" else "module"
        elif kind == "parameter":
            kind = "flow"
        return self._make(node, "index", (value, index), kind)

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Expr:
        parts = tuple(self.read(part) for part in node.elts)
        op: Op = "tuple" if isinstance(node, ast.Tuple) else "list"
        op = "set" if isinstance(node, ast.Set) else op
        return self._make(node, op, parts, container_kind(parts))

    def _dict(self, node: ast.Dict) -> Expr:
        parts: list[Expr] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                parts.append(self.read(key))
            parts.append(self.read(value))
        return self._make(node, "dict", tuple(parts), container_kind(tuple(parts)))

    def _binary(self, node: ast.BinOp) -> Expr:
        parts = (self.read(node.left), self.read(node.right))
        kind = arithmetic_kind(parts[0], parts[1])
        return self._make(node, "binary", parts, kind, operator_symbol(node.op))

    def _unary(self, node: ast.UnaryOp) -> Expr:
        symbol = operator_symbol(node.op)
        if symbol == "not":
            part = self.test(node.operand)
            return self._make(node, "unary", (part,), "python", symbol)
        part = self.read(node.operand)
        kind: Kind = "flow" if part.kind == "parameter" else part.kind
        return self._make(node, "unary", (part,), kind, symbol)

    def _compare(self, node: ast.Compare) -> Expr:
        with self.env.test(False):
            parts = tuple(self.read(part) for part in (node.left, *node.comparators))
        symbols = [operator_symbol(op) for op in node.ops]
        if len(parts) == 2 and asks_of_objects(symbols[0], *parts):
            return question_of_objects(symbols[0], parts, self.env.source.span(node))
        identity = all(symbol in _IDENTITY for symbol in symbols)
        flowing = any(part.kind in FLOWING for part in parts)
        kind: Kind = "flow" if flowing and not identity else "python"
        return self._make(node, "compare", parts, kind, " ".join(symbols))

    def _boolean(self, node: ast.BoolOp) -> Expr:
        # Python asks every operand but the last for its truth.
        parts = [self.test(part) for part in node.values[:-1]]
        last = self.read(node.values[-1])
        name = "and" if isinstance(node.op, ast.And) else "or"
        kind: Kind = last.kind if last.kind in {"python", *FLOWING} else "maybe"
        return self._make(node, "boolean", (*parts, last), kind, name)

    def _conditional(self, node: ast.IfExp) -> Expr:
        test = self.test(node.test)
        with narrowed(self.env, test, True):
            then = self.read(node.body)
        with narrowed(self.env, test, False):
            other = self.read(node.orelse)
        kinds = {then.kind, other.kind}
        kind: Kind = then.kind if len(kinds) == 1 else "maybe"
        return self._make(node, "conditional", (test, then, other), kind)

    def _named(self, node: ast.NamedExpr) -> Expr:
        value = self.read(node.value)
        self.env.kinds[node.target.id] = value.kind
        return self._make(node, "assignment", (value,), value.kind, node.target.id)

    def _lambda(self, node: ast.Lambda) -> Expr:
        arguments, refusals = argument_names(node), list(self.env.refusals)
        outside = {name for name, kind in self.env.kinds.items() if kind in MAY_FLOW}
        before = len(self.env.own_calls)
        with self.env.scope():
            for name in arguments:
                self.env.kinds[name] = "flow"
            body = self.read(node.body)
        if self.env.mapping:
            return self._make(node, "lambda", (body,), "python")
        inner = list(walk(body))
        calls = any(part.role == "submodule" for part in inner)
        captured = {part.name for part in inner if part.op == "name"} & outside
        captured -= arguments
        calls = calls or any(part.asked or part.role == "value" for part in inner)
        if not is_plain(node):
            self.env.refuse(node.lineno, "FDL313", "a lambda that changes what is around it")
        elif captured or calls or len(self.env.own_calls) > before:
            # Whoever gets it calls it with tensors: it stays as it is, one step of the graph.
            self.env.refusals = refusals
            self.env.opaque[node.lineno] = sum(1 for part in inner if part.op == "call")
        return self.verbatim(node, "other")

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> Expr:
        parts: list[Expr] = []
        labels: list[str] = []
        with self.env.scope():
            for clause in node.generators:
                iterable = self.read(clause.iter)
                bind_loop(self.env, self.read(clause.target), iterable)
                # Read again: the names of the target now have their kinds.
                parts += (iterable, self.read(clause.target))
                parts.extend(self.test(condition) for condition in clause.ifs)
                labels += ("in", "for", *("if" for _ in clause.ifs))
            if isinstance(node, ast.DictComp):
                parts.append(self.read(node.key))
                labels.append("key")
                element = self.read(node.value)
            else:
                element = self.read(node.elt)
        parts.append(element)
        made = self._make(
            node,
            "comprehension",
            tuple(parts),
            container_kind((element,)),
            _COMPREHENSIONS[type(node)],
        )
        return replace(made, labels=(*labels, ""))

    def _call(self, node: ast.Call) -> Expr:
        env = self.env
        callee = self.read(node.func)
        mapping, env.mapping = env.mapping, callee.op == "name" and callee.name == "map"
        with env.test(False):
            positional = tuple(self.read(argument) for argument in node.args)
            keywords = tuple(self.read(keyword.value) for keyword in node.keywords)
        env.mapping = mapping
        arguments = (*positional, *keywords)
        verdict = classify(env, callee, arguments, node.lineno)
        if verdict.role in {"submodule", "function", "own"}:
            positional = tuple(handed_on(env, part) for part in positional)
            keywords = tuple(handed_on(env, part) for part in keywords)
            arguments = (*positional, *keywords)
        speaks = verdict.role == "function" and is_formatted(arguments)
        if verdict.role == "made" or speaks:
            return made_call(env, node, verdict.kind)
        labels = (
            *("*" if part.op == "starred" else "" for part in positional),
            *(keyword.arg or "**" for keyword in node.keywords),
        )
        if verdict.role == "own":
            handed = zip(labels, (argument.kind for argument in arguments), strict=True)
            env.given.append((callee.name, tuple(handed)))
        return Expr(
            op="call",
            parts=(callee, *arguments),
            labels=labels,
            kind=verdict.kind,
            role=verdict.role,
            span=env.source.span(node),
            holes=places((callee, *arguments)),
        )

    def bind(self, target: ast.expr, value: Expr) -> Expr:
        """Read an assignment target and bind it."""
        expr = self.read(target)
        bind(self.env, expr, value)
        return expr


def places(parts: tuple[Expr, ...]) -> tuple[Span, ...]:
    """Return where the parts stand in the source."""
    return tuple(part.span for part in parts if part.span is not None)
