"""Abstract interpretation of expressions: syntax becomes IR, and every node gets its kind."""

import ast
from dataclasses import replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, Kind, Op, Role, walk
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.knowledge import tensor_methods as methods
from fdl_cli.porter.knowledge.python_names import TEXT_METHODS
from fdl_cli.porter.lower.binding import bind, bind_loop, element_kind
from fdl_cli.porter.lower.calls import classify, runs
from fdl_cli.porter.lower.effects.attribute_writes import (
    as_read,
    is_elsewhere,
    is_held,
    is_set_here,
    read_live,
)
from fdl_cli.porter.lower.effects.identity import asks_of_objects, question_of_objects
from fdl_cli.porter.lower.effects.new_objects import handed_on
from fdl_cli.porter.lower.effects.opaque_calls import (
    has_steps,
    is_formatted,
    is_used_up,
    made_call,
)
from fdl_cli.porter.lower.environment import (
    ATTRIBUTE_KINDS,
    FLOWING,
    MAY_FLOW,
    Environment,
    join,
)
from fdl_cli.porter.lower.given_names import is_given
from fdl_cli.porter.lower.kinds import arithmetic_kind, container_kind, stored_kind
from fdl_cli.porter.lower.narrowing import narrowed
from fdl_cli.porter.lower.nested import argument_names, is_plain

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
_PLAIN = frozenset({"name", "constant"})
_LISTS = frozenset({"python", "modules", "flows", "parameters"})
_IDENTITY = frozenset({"is", "is not", "in", "not in"})


def operator_symbol(node: ast.AST) -> str:
    """Return how an operator is written."""
    return _OPERATORS[type(node)]


@final
class ExpressionReader:
    """Turns expressions of one method into IR, binding and refusing in its environment."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.in_arguments = False

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
        """Read an expression whose truth value Python needs."""
        if isinstance(node, ast.BoolOp):
            # Python evaluates all of them, as far as it takes.
            parts = tuple(self.test(part) for part in node.values)
            return self._make(node, "boolean", parts, "python", _joint(node))
        expr = self._compare(node) if isinstance(node, ast.Compare) else self.read(node)
        return self._ask(node, expr) if self._is_asked(node, expr) else expr

    def _is_asked(self, node: ast.expr, expr: Expr) -> bool:
        """Return True if only a call can tell whether a value is true."""
        if expr.kind != "maybe":
            return expr.kind in FLOWING
        # A helper's arguments may have been computed; those of a forward are guarded.
        method = self.env.method
        is_helper = method is not None and method.name not in {"forward", "__call__"}
        return (is_helper and bool(self.env.view.methods)) or not is_given(method, node)

    def _ask(self, node: ast.expr, expr: Expr) -> Expr:
        """Note that Python needs the truth of a tensor."""
        if not self.env.names.is_own("bool"):
            # In `a < b < c` the middle one is read twice.
            middle = expr.parts[1:-1] if expr.op == "compare" else ()
            names = (each.name if each.op in _PLAIN else self._free_name() for each in middle)
            return replace(expr, asked="bool", labels=tuple(names) or expr.labels)
        text = " ".join(self.env.source.slice(self.env.source.span(node)).split())
        message = f"`{text}` depends on the value of a tensor, and `bool` is a name of the file"
        self.env.refuse(node.lineno, "FDL301", message)
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
                made = self._compare(node)
                is_chain = len(node.ops) > 1 and made.kind in FLOWING
                # The value of a chain is that of the pair which ends it.
                return made_call(self.env, node, "result", hides=True) if is_chain else made
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
                return self._text(node)
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

    def _text(self, node: ast.JoinedStr) -> Expr:
        """Read a text with values in it; one that runs code which is not known is a step as a whole."""
        inside = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
        with self.env.scope():
            read = [self.read(each) for each in inside]
        if any(has_steps(each) for each in read):
            return replace(made_call(self.env, node, "result"), asked="text")
        if any(each.kind in FLOWING for each in read) and not self.in_arguments:
            # Only a call knows the value; as an argument, its call as a whole becomes a step.
            return replace(made_call(self.env, node, "python"), asked="text")
        return self.verbatim(node, "format")

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
        changes = is_set_here(self.env.method, node) and is_elsewhere(self.env, value)
        if changes or self._holds_tensors(value, node) or self._runs_code(value, node):
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

    def _holds_tensors(self, value: Expr, node: ast.Attribute) -> bool:
        """Return True if an attribute is a list or dict of tensors, which no plan knows by their names."""
        if not self.env.is_self(value) or node.attr in self.env.view.stored:
            return False
        fact = self.env.view.attributes.get(node.attr)
        return fact is not None and fact.kind == "tensors" and isinstance(node.ctx, ast.Load)

    def _runs_code(self, value: Expr, node: ast.Attribute) -> bool:
        """Return True if an attribute is a property of a class of this file that is no module."""
        kind = self.env.names.classes.get(value.maker)
        if kind is None or value.maker in self.env.module_classes:
            return False
        found = {
            each.name
            for each in kind.body
            if isinstance(each, ast.FunctionDef)
            if each.name == "__getattr__"
            or any(ast.unparse(mark).endswith("property") for mark in each.decorator_list)
        }
        return isinstance(node.ctx, ast.Load) and bool(found & {node.attr, "__getattr__"})

    def _maker(self, value: Expr, name: str) -> str:
        fact = self.env.view.attributes.get(name) if self.env.is_self(value) else None
        return fact.constructor if fact is not None else ""

    def _attribute_kind(self, value: Expr, name: str) -> Kind:
        if self.env.is_self(value):
            if name in {"_parameters", "_buffers"}:
                return "parameters"
            fact = self.env.view.attributes.get(name)
            if name in self.env.view.stored:
                first: Kind = ATTRIBUTE_KINDS[fact.kind] if fact is not None else "maybe"
                return self.env.kinds.get(f"self.{name}", stored_kind(first))
            if name in self.env.view.properties:
                return self.env.view.results.get(name, "maybe")
            return ATTRIBUTE_KINDS[fact.kind] if fact is not None else "python"
        if name in {"_parameters", "_buffers"} and value.kind in {"module", "modules"}:
            return "parameters"
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
        if value.kind in _LISTS and index.kind == "flow":
            # A list or a table of Python takes no tensor that is not known yet.
            index = replace(index, asked="int")
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
        symbol = operator_symbol(node.op)
        is_text = parts[0].op == "format" or parts[0].name[:1] in {"'", '"'}
        if symbol == "%" and is_text and any(each.kind in MAY_FLOW for each in walk(parts[1])):
            return replace(made_call(self.env, node, "result"), asked="text")
        kind = arithmetic_kind(symbol, parts[0], parts[1])
        return self._make(node, "binary", parts, kind, symbol)

    def _unary(self, node: ast.UnaryOp) -> Expr:
        symbol = operator_symbol(node.op)
        if symbol == "not":
            part = self.test(node.operand)
            return self._make(node, "unary", (part,), "python", symbol)
        part = self.read(node.operand)
        kind: Kind = "flow" if part.kind == "parameter" else part.kind
        return self._make(node, "unary", (part,), kind, symbol)

    def _compare(self, node: ast.Compare) -> Expr:
        parts = tuple(self.read(part) for part in (node.left, *node.comparators))
        symbols = [operator_symbol(op) for op in node.ops]
        if len(parts) == 2 and asks_of_objects(symbols[0], *parts):
            return question_of_objects(symbols[0], parts, self.env.source.span(node))
        identity = all(symbol in _IDENTITY for symbol in symbols)
        kinds = {part.kind for part in parts} & FLOWING
        kind: Kind = "python"
        if kinds and not identity:
            kind = "result" if kinds == {"result"} else "flow"
        elif not identity and any(part.kind == "maybe" for part in parts):
            kind = "python" if any(is_text(part) for part in parts) else "maybe"
        return self._make(node, "compare", parts, kind, " ".join(symbols))

    def _boolean(self, node: ast.BoolOp) -> Expr:
        parts = tuple(self.read(part) for part in node.values)
        symbol = _joint(node)
        kind: Kind = parts[-1].kind
        for part in parts[:-1]:
            kind = join(part.kind, kind)
        made = self._make(node, "boolean", parts, kind, symbol)
        if not any(part.kind in FLOWING for part in parts[:-1]):
            return made
        # `a or b` gives `a` itself, but a step can only tell whether it is true.
        names = [part.name if part.op == "name" else self._free_name() for part in parts[:-1]]
        return replace(made, asked="which", labels=tuple(names))

    def _free_name(self) -> str:
        """Return the name of a variable that nothing in the method has."""
        taken = set(self.env.kinds)
        if self.env.method is not None:
            taken |= {each.id for each in ast.walk(self.env.method) if isinstance(each, ast.Name)}
        name = "value"
        while name in taken:
            name += "_"
        self.env.kinds[name] = "result"
        return name

    def _conditional(self, node: ast.IfExp) -> Expr:
        test = self.test(node.test)
        with narrowed(self.env, test, True):
            then = self.read(node.body)
        with narrowed(self.env, test, False):
            other = self.read(node.orelse)
        kind = join(then.kind, other.kind)
        return self._make(node, "conditional", (test, then, other), kind)

    def _named(self, node: ast.NamedExpr) -> Expr:
        value = self.read(node.value)
        self.env.bind(node.target.id, value.kind)
        return self._make(node, "assignment", (value,), value.kind, node.target.id)

    def _lambda(self, node: ast.Lambda) -> Expr:
        arguments, refusals = argument_names(node), list(self.env.refusals)
        outside = {name for name, kind in self.env.kinds.items() if kind in MAY_FLOW}
        before = len(self.env.own_calls)
        with self.env.scope():
            for name in arguments:
                self.env.kinds[name] = self.env.mapping or "flow"
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
        made = self.verbatim(node, "other")
        made = replace(
            made, parts=tuple(each for each in made.parts if each.name not in arguments)
        )
        return replace(made, role="function") if has_steps(body) else made

    def _comprehension(
        self,
        node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
        *,
        asks: bool = False,
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
                element = self.test(node.elt) if asks else self.read(node.elt)
        parts.append(element)
        made = self._make(
            node,
            "comprehension",
            tuple(parts),
            "python" if asks else container_kind((element,)),
            _COMPREHENSIONS[type(node)],
        )
        return replace(made, labels=(*labels, ""))

    def _arguments(
        self, node: ast.Call, callee: Expr
    ) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Return the arguments of a call, positional and named, read as its callee takes them."""
        env = self.env
        word = callee.name if callee.op == "name" and not env.names.is_own(callee.name) else ""
        positional: tuple[Expr, ...]
        asks = word in {"any", "all"} and callee.name not in env.kinds and len(node.args) == 1
        mapping, env.mapping = env.mapping, None
        inside, self.in_arguments = self.in_arguments, True
        if asks and isinstance(node.args[0], ast.GeneratorExp | ast.ListComp):
            positional = (self._comprehension(node.args[0], asks=True),)
        elif word == "map" and len(node.args) > 1:
            positional = self._mapped(node)
        else:
            positional = tuple(self.read(argument) for argument in node.args)
            if word == "range":
                positional = tuple(
                    replace(each, asked="int") if each.kind in {"flow", "parameter"} else each
                    for each in positional
                )
        keywords = tuple(self.read(keyword.value) for keyword in node.keywords)
        env.mapping, self.in_arguments = mapping, inside
        return positional, keywords

    def _mapped(self, node: ast.Call) -> tuple[Expr, ...]:
        """Read `map(function, ...)`: Python calls the function, with the items of what follows."""
        items = tuple(self.read(argument) for argument in node.args[1:])
        kinds = {element_kind(each.kind) for each in items}
        self.env.mapping = kinds.pop() if len(kinds) == 1 else "maybe"
        function = self.read(node.args[0])
        self.env.mapping = None
        if function.op != "lambda" and runs((function,), self.env):
            function = replace(function, asked="mapped")
        return (function, *items)

    def _call(self, node: ast.Call) -> Expr:
        env = self.env
        callee = self._callee(node)
        positional, keywords = self._arguments(node, callee)
        arguments = (*positional, *keywords)
        verdict = classify(env, callee, arguments, node.lineno)
        is_step = verdict.role in {"submodule", "function"}
        if is_step and any(is_used_up(part) for part in arguments):
            return made_call(env, node, verdict.kind, hides=True)
        if self._fills(callee, verdict.role):
            positional = tuple(self._as_held(part) for part in positional)
            keywords = tuple(self._as_held(part) for part in keywords)
            arguments = (*positional, *keywords)
        if is_step or verdict.role == "own":
            positional = tuple(handed_on(env, part) for part in positional)
            keywords = tuple(handed_on(env, part) for part in keywords)
            arguments = (*positional, *keywords)
        speaks = verdict.role == "function" and is_formatted(arguments)
        if verdict.role == "made" or speaks:
            return made_call(env, node, verdict.kind, hides=verdict.kind == "result")
        self._check_filled(callee, verdict.role, arguments, node.lineno)
        labels = (
            *("*" if part.op == "starred" else "" for part in positional),
            *(keyword.arg or "**" for keyword in node.keywords),
        )
        handed = tuple(zip(labels, (argument.kind for argument in arguments), strict=True))
        if verdict.role == "own":
            above = callee.op == "attribute" and callee.parts[0].op == "call"
            env.given.append(("", callee.name, above, handed))
        elif callee.maker in env.module_classes:
            env.given.append((callee.maker, "forward", False, handed))
        return Expr(
            op="call",
            parts=(callee, *arguments),
            labels=labels,
            kind=verdict.kind,
            role=verdict.role,
            span=env.source.span(node),
            holes=places((callee, *arguments)),
        )

    def _fills(self, callee: Expr, role: Role) -> bool:
        """Return True if code that is traced in place may change a container that it is given."""
        if role == "own":
            return callee.name in self.env.view.fillers
        fact = self.env.functions.get(callee.dotted or callee.name)
        return role == "python" and callee.op == "name" and fact is not None and fact.fills

    def _check_filled(
        self, callee: Expr, role: Role, arguments: tuple[Expr, ...], line: int
    ) -> None:
        """Refuse a step that changes a container of the forward: values may decide how, call by call."""
        fact = self.env.functions.get(callee.dotted or callee.name)
        if role != "function" or fact is None or not fact.fills or fact.transparent:
            return
        if any(part.op == "name" and part.kind in {"flows", "parameters"} for part in arguments):
            message = f"`{callee.name}` changes a container of the forward by values"
            self.env.refuse(line, "FDL309", message)

    def _as_held(self, part: Expr) -> Expr:
        """Return an argument; a value that the object holds is read by a step, and changed in every call."""
        held = part.span is not None and is_held(self.env, part, 1)
        return read_live(part, part.span) if held and part.span is not None else part

    def _callee(self, node: ast.Call) -> Expr:
        """Read whom a call calls; a method of an unknown object inside of another one is read live."""
        callee = self.read(node.func)
        if callee.op != "attribute" or callee.name in TEXT_METHODS:
            return callee
        owner = callee.parts[0]
        if not is_held(self.env, owner, 2):
            return callee
        live = read_live(owner, self.env.source.span(node))
        return replace(callee, parts=(live,), kind="result")

    def bind(self, target: ast.expr, value: Expr) -> Expr:
        """Read an assignment target and bind it."""
        expr = self.read(target)
        bind(self.env, expr, value)
        return expr


def is_text(expr: Expr) -> bool:
    """Return True if an expression is a text, which no tensor is equal to."""
    return expr.op == "format" or (expr.op == "constant" and expr.name[:1] in {"'", '"'})


def _joint(node: ast.BoolOp) -> str:
    return "and" if isinstance(node.op, ast.And) else "or"


def places(parts: tuple[Expr, ...]) -> tuple[Span, ...]:
    """Return the places of the parts in the source."""
    return tuple(part.span for part in parts if part.span is not None)
