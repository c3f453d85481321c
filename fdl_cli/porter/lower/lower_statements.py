"""Abstract interpretation of statements: a method body becomes a block of IR."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, Kind
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.statements import Block, Stmt, StmtOp, expressions
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.lower.binding import bind_loop
from fdl_cli.porter.lower.effects.attribute_writes import (
    as_call,
    is_elsewhere,
    is_recorded,
    paired,
)
from fdl_cli.porter.lower.effects.new_objects import as_new_object
from fdl_cli.porter.lower.effects.opaque_calls import has_steps, is_formatted, made_call
from fdl_cli.porter.lower.environment import FLOWING, Environment, join
from fdl_cli.porter.lower.lower_expressions import ExpressionReader, operator_symbol, places
from fdl_cli.porter.lower.names import add_import
from fdl_cli.porter.lower.narrowing import narrowed, none_tests
from fdl_cli.porter.lower.nested import (
    argument_names,
    constant_parameters,
    free_nonlocals,
    is_called_only,
    is_plain,
)
from fdl_cli.porter.parse.buffers import is_settled

_ENDS = frozenset({"return", "raise", "continue", "break"})


@final
class BlockReader:
    """Turns the statements of one method into IR."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.expressions = ExpressionReader(env)

    def read(self, body: Sequence[ast.stmt]) -> Block:
        """Return the IR of a block."""
        return tuple(self._statement(node) for node in body)

    def _statement(self, node: ast.stmt) -> Stmt:
        match node:
            case ast.Assign():
                return self._assign(node)
            case ast.AugAssign():
                return self._augment(node)
            case ast.AnnAssign():
                return self._annotated(node)
            case ast.Expr():
                return self._expression(node)
            case ast.Return():
                return self._return(node)
            case ast.If():
                return self._if(node)
            case ast.For():
                return self._for(node)
            case ast.While():
                return self._while(node)
            case ast.With():
                return self._with(node)
            case _:
                return self._rare(node)

    def _rare(self, node: ast.stmt) -> Stmt:
        match node:
            case ast.Match():
                return self._match(node)
            case ast.FunctionDef():
                return self._define(node)
            case ast.Assert():
                test = self.expressions.test(node.test)
                message = () if node.msg is None else (self.expressions.read(node.msg),)
                return self._make(node, "assert", exprs=(test, *message))
            case ast.Raise():
                return self._raise(node)
            case ast.Delete():
                if any(isinstance(target, ast.Attribute) for target in node.targets):
                    self.env.refuse(node.lineno, "FDL309", "an attribute is deleted")
                plain = all(isinstance(target, ast.Name) for target in node.targets)
                made = self._verbatim(node, "delete")
                return replace(made, name="variables") if plain else made
            case ast.Nonlocal():
                return self._nonlocal(node)
            case ast.Pass() | ast.Break() | ast.Continue():
                return self._make(node, _BARE[type(node)])
            case ast.Import() | ast.ImportFrom():
                add_import(node, self.env.names.aliases, set())
                return self._make(node, "other")
            case _:
                return self._refused(node)

    def _nonlocal(self, node: ast.Nonlocal) -> Stmt:
        """Note variables that a function sets: it runs where it is called while the flow is traced."""
        self.env.shared |= set(node.names)
        self.env.kinds |= dict.fromkeys(node.names, "maybe")
        return self._make(node, "other", name="nonlocal")

    def _raise(self, node: ast.Raise) -> Stmt:
        """Read a `raise`; a text that needs the value of a tensor is made by a step."""
        if isinstance(node.exc, ast.Call) and node.cause is None:
            refusals = list(self.env.refusals)
            arguments = [*node.exc.args, *(each.value for each in node.exc.keywords)]
            read = tuple(self.expressions.read(each) for each in arguments)
            if any(has_steps(each) for each in read) and self.env.refusals == refusals:
                callee = self.expressions.verbatim(node.exc.func, "other")
                parts = (replace(callee, parts=()), *read)
                labels = (
                    *("" for _ in node.exc.args),
                    *(k.arg or "**" for k in node.exc.keywords),
                )
                made = Expr(
                    op="call",
                    parts=parts,
                    labels=labels,
                    role="python",
                    kind="python",
                    span=self.env.source.span(node.exc),
                    holes=places(parts),
                )
                return self._make(node, "raise", exprs=(made,))
            self.env.refusals = refusals
        return self._verbatim(node, "raise")

    def _verbatim(self, node: ast.stmt, op: StmtOp) -> Stmt:
        return self._make(node, op, exprs=(self.expressions.verbatim(node, "other"),))

    def _refused(self, node: ast.stmt) -> Stmt:
        code, message = _REFUSED.get(type(node), ("FDL318", f"a {type(node).__name__} statement"))
        self.env.refuse(node.lineno, code, message)
        return self._verbatim(node, "other")

    def _make(
        self,
        node: ast.stmt,
        op: StmtOp,
        *,
        targets: tuple[Expr, ...] = (),
        exprs: tuple[Expr, ...] = (),
        name: str = "",
    ) -> Stmt:
        span = self.env.source.span(node)
        lead = None
        if op in {"assign", "return", "expr"} and exprs and exprs[0].span is not None:
            lead = Span(start=span.start, end=exprs[0].span.start, line=span.line)
        return Stmt(op=op, targets=targets, exprs=exprs, name=name, sources=(span,), lead=lead)

    def _assign(self, node: ast.Assign) -> Stmt:
        value = as_new_object(
            self.env, node.targets[0], node.value, self.expressions.read(node.value)
        )
        elsewhere = self._set_elsewhere(node, value)
        if elsewhere is not None:
            return elsewhere
        targets = tuple(self.expressions.bind(target, value) for target in node.targets)
        for target in targets:
            self._check_target(target, value, node.lineno)
        made = self._make(node, "assign", targets=targets, exprs=(value,))
        if is_settled(node):
            made = replace(made, targets=(replace(targets[0], span=None),), lead=None)
        return made

    def _set_elsewhere(self, node: ast.Assign, value: Expr) -> Stmt | None:
        """Return the steps that set attributes of layers, or of other objects that outlive the call."""
        if len(node.targets) != 1:
            return None
        pairs = paired(self.expressions.read(node.targets[0]), value)
        for target, part in pairs:
            if target.op != "attribute" or self.env.is_self(target.parts[0]):
                return None
            if is_recorded(self.env, target) or not is_elsewhere(self.env, target.parts[0]):
                return None
            if part.kind in {"module", "modules"}:
                return None
        span = self.env.source.span(node)
        calls = tuple(as_call(target, part, span) for target, part in pairs)
        self.env.set_elsewhere |= {target.name: node.lineno for target, _ in pairs}
        both = Expr(op="tuple", parts=calls, kind="python", role="function", span=span)
        return self._make(node, "expr", exprs=calls if len(calls) == 1 else (both,))

    def _annotated(self, node: ast.AnnAssign) -> Stmt:
        if node.value is None:
            return self._make(node, "other")
        value = as_new_object(self.env, node.target, node.value, self.expressions.read(node.value))
        target = self.expressions.bind(node.target, value)
        self._check_target(target, value, node.lineno)
        return self._make(node, "assign", targets=(target,), exprs=(value,))

    def _augment(self, node: ast.AugAssign) -> Stmt:
        target = self.expressions.read(node.target)
        value = self.expressions.read(node.value)
        if target.op == "name" and {target.kind, value.kind} & FLOWING:
            # A list that grows by another one stays a list.
            grown: Kind = value.kind if value.kind in {"flows", "parameters"} else "flow"
            kept: Kind = target.kind if target.kind in FLOWING else grown
            if {target.kind, value.kind} == {"flows", "parameters"}:
                kept = "parameters"
            self.env.bind(target.name, kept)
        self._check_target(target, value, node.lineno)
        symbol = operator_symbol(node.op)
        return self._make(node, "augment", targets=(target,), exprs=(value,), name=symbol)

    def _check_target(self, target: Expr, value: Expr, line: int) -> None:
        """Refuse writes to the object itself; note containers that get tensors."""
        for part in target.parts if target.op in {"tuple", "list"} else (target,):
            root = part
            while root.op in {"attribute", "index"}:
                root = root.parts[0]
            owner = part.parts[0] if part.op in {"attribute", "index"} else part
            own = part.op == "attribute" and self.env.is_self(owner)
            filled = part.op == "index" and owner.op == "attribute" and bool(owner.parts)
            if own or (filled and self.env.is_self(owner.parts[0])):
                if own and value.kind in {"module", "modules"}:
                    self.env.refuse(line, "FDL309", "a layer of the object is changed")
            elif part.op == "attribute" and is_recorded(self.env, part):
                continue
            elif part.op in {"attribute", "index"} and self.env.is_self(root):
                self.env.refuse(line, "FDL309", "something inside the object is changed")
            elif part.op == "attribute":
                self.env.refuse(line, "FDL309", f"the attribute `.{part.name}` is set")
            elif part.op == "index" and value.kind in FLOWING:
                known = self.env.kinds.get(root.name) if root.op == "name" else None
                if known == "python":
                    self.env.kinds[root.name] = "flows"

    def _expression(self, node: ast.Expr) -> Stmt:
        if isinstance(node.value, ast.Constant):
            return self._make(node, "docstring")
        value = self.expressions.read(node.value)
        if value.op == "call" and value.role == "python" and self._speaks(value.parts[0]):
            assert isinstance(node.value, ast.Call)
            formatted = is_formatted(value.parts[1:])
            value = (
                made_call(self.env, node.value, "none")
                if formatted
                else replace(value, role="function")
            )
        return self._make(node, "expr", exprs=(value,))

    def _speaks(self, callee: Expr) -> bool:
        """Return True if a call whose result is unused is a separate step."""
        root = callee
        while root.op == "attribute":
            root = root.parts[0]
        if root.op != "name" or root.name in self.env.kinds or self.env.is_self(root):
            return False
        if callee.dotted.startswith(("torch.", "warnings.")):
            return False
        known = self.env.functions.get(root.name)
        return self.env.names.is_own(root.name) and (known is None or not known.transparent)

    def _return(self, node: ast.Return) -> Stmt:
        if node.value is None:
            self.env.returns.append("none")
            return self._make(node, "return")
        value = self.expressions.read(node.value)
        self.env.returns.append(value.kind)
        return self._make(node, "return", exprs=(value,))

    def _if(self, node: ast.If) -> Stmt:
        test = self.expressions.test(node.test)
        before = dict(self.env.kinds)
        with narrowed(self.env, test, True):
            body = self.read(node.body)
        after_body = self.env.kinds
        self.env.kinds = dict(before)
        with narrowed(self.env, test, False):
            orelse = self.read(node.orelse)
        self._join(after_body, body, orelse)
        self._narrow_after(test, body, orelse)
        span = self.env.source.span(node)
        return Stmt(op="if", exprs=(test,), body=body, orelse=orelse, sources=(span,))

    def _match(self, node: ast.Match) -> Stmt:
        """Read a `match` as the branches of an `if`; its patterns stay as they are."""
        subject = self.expressions.read(node.subject)
        if subject.kind in FLOWING and subject.op not in {"tuple", "list", "dict"}:
            self.env.refuse(node.lineno, "FDL318", "a `match` on the value of a tensor")
            return self._verbatim(node, "other")
        return self._case(node, (subject,), node.cases)

    def _case(
        self, node: ast.Match, before: tuple[Expr, ...], cases: list[ast.match_case]
    ) -> Stmt:
        """Read a case and, as what happens otherwise, those after it."""
        case, *others = cases
        kinds = dict(self.env.kinds)
        targets = tuple(
            Expr(op="name", name=name, kind="maybe") for name in _captured(case.pattern)
        )
        for target in targets:
            self.env.bind(target.name, "maybe")
        guard = () if case.guard is None else (self.expressions.test(case.guard),)
        whole = self.env.source.span(node)
        start = whole if before else self.env.source.span(case.pattern)
        span = replace(start, end=whole.end)
        # Nothing that is known of a condition holds for a pattern, so its kind is `maybe`.
        parts = (*before, *guard)
        test = Expr(op="tuple", parts=parts, kind="maybe", span=span, holes=places(parts))
        body = self.read(case.body)
        after_body = self.env.kinds
        self.env.kinds = kinds
        orelse: Block = ()
        if others:
            rest = self.read(others[0].body) if _takes_all(others[0]) else None
            orelse = (self._case(node, (), others),) if rest is None else rest
        self._join(after_body, body, orelse)
        return Stmt(
            op="if", exprs=(test,), targets=targets, body=body, orelse=orelse, sources=(span,)
        )

    def _join(self, after_body: dict[str, Kind], body: Block, orelse: Block) -> None:
        if _leaves(body):
            return
        if _leaves(orelse):
            self.env.kinds = after_body
            return
        after_else = self.env.kinds
        names = dict.fromkeys((*after_body, *after_else))
        self.env.kinds = {name: join(after_body.get(name), after_else.get(name)) for name in names}

    def _narrow_after(self, test: Expr, body: Block, orelse: Block) -> None:
        # `if x is None: return ...` or `x = ...` leaves a tensor behind.
        if orelse or not body:
            return
        for name, present in none_tests(self.env, test, False):
            replaced = any(t.name == name for stmt in body for t in stmt.targets if t.op == "name")
            known = name in self.env.optional and self.env.kinds.get(name) == "maybe"
            if present and known and (_leaves(body) or replaced):
                self.env.kinds[name] = "flow"

    def _for(self, node: ast.For) -> Stmt:
        iterable = self.expressions.read(node.iter)
        before = dict(self.env.kinds)
        # The first pass finds the names that the body binds, the second reads it knowing them.
        self._loop_body(node, iterable)
        names = dict.fromkeys((*before, *self.env.kinds))
        self.env.kinds = {name: join(before.get(name), self.env.kinds.get(name)) for name in names}
        target, body, orelse = self._loop_body(node, iterable)
        span = self.env.source.span(node)
        return Stmt(
            op="for",
            targets=(target,),
            exprs=(iterable,),
            body=body,
            orelse=orelse,
            sources=(span,),
        )

    def _loop_body(self, node: ast.For, iterable: Expr) -> tuple[Expr, Block, Block]:
        target = self.expressions.read(node.target)
        bind_loop(self.env, target, iterable)
        # Read again: the names of the target now have their kinds.
        target = self.expressions.read(node.target)
        return target, self.read(node.body), self.read(node.orelse)

    def _define(self, node: ast.FunctionDef) -> Stmt:
        """Read a function defined inside; its operations are recorded where it is called."""
        env = self.env
        captured = self.expressions.verbatim(node, "other")
        called = is_called_only(env.method, node)
        if not called and not is_plain(node):
            message = f"the function `{node.name}` is handed on, and changes what is around it"
            env.refuse(node.lineno, "FDL312", message)
        returns, env.returns = env.returns, []
        refusals, opaque = list(env.refusals), dict(env.opaque)
        with env.scope():
            constant = constant_parameters(env.method, node) if called else set()
            for name in argument_names(node):
                env.kinds[name] = "python" if name in constant else "maybe"
            body = self.read(node.body)
        env.kinds |= dict.fromkeys(free_nonlocals(node), "maybe")
        result: Kind | None = None
        for kind in env.returns:
            result = kind if result is None else join(result, kind)
        env.returns = returns
        env.kinds[node.name] = "python"
        if not called:
            # Whoever gets it calls it with tensors: it stays as it is, one step of the graph.
            env.refusals, env.opaque = refusals, opaque
            env.opaque[node.lineno] = _operations(body)
            env.handed[node.name] = result if result in FLOWING else "maybe"
            return self._make(node, "other", name=node.name, exprs=(captured,))
        env.local_functions[node.name] = result or "none"
        span = env.source.span(node)
        return Stmt(op="define", name=node.name, exprs=(captured,), body=body, sources=(span,))

    def _with(self, node: ast.With) -> Stmt:
        refusals = len(self.env.refusals)
        managers, targets = [], []
        for item in node.items:
            manager = self._manager(node, item)
            managers.append(manager)
            if item.optional_vars is not None:
                value = replace(manager, kind="flow")
                targets.append(self.expressions.bind(item.optional_vars, value))
        body = self.read(node.body)
        made = any(manager.role in {"function", "method"} for manager in managers)
        if made and len(self.env.refusals) == refusals and any(x.asked for x in expressions(body)):
            # The block would be entered twice, once for each branch after it.
            self.env.refuse(node.lineno, "FDL306", "a decision inside a `with` block")
        span = self.env.source.span(node)
        return Stmt(
            op="with", targets=tuple(targets), exprs=tuple(managers), body=body, sources=(span,)
        )

    def _manager(self, node: ast.With, item: ast.withitem) -> Expr:
        """Read a context manager: one of torch that stays as it is, or the value of a step."""
        context = item.context_expr
        called = context.func if isinstance(context, ast.Call) else context
        if self.env.names.dotted(called) in torch.CONTEXTS and item.optional_vars is None:
            with self.env.scope_entry():
                return self.expressions.read(context)
        manager = self.expressions.read(context)
        if manager.op != "call" or _swallows(manager.parts[0]):
            text = " ".join(self.env.source.slice(self.env.source.span(context)).split())
            self.env.refuse(node.lineno, "FDL306", f"`with {text}`")
        elif manager.role != "method" and manager.kind != "flow":
            return replace(manager, role="function", kind="maybe")
        return manager

    def _while(self, node: ast.While) -> Stmt:
        test = self.expressions.test(node.test)
        before = dict(self.env.kinds)
        self.read(node.body)
        self.env.kinds = {
            name: join(before.get(name), self.env.kinds.get(name))
            for name in dict.fromkeys((*before, *self.env.kinds))
        }
        body, orelse = self.read(node.body), self.read(node.orelse)
        span = self.env.source.span(node)
        return Stmt(op="while", exprs=(test,), body=body, orelse=orelse, sources=(span,))


def _swallows(callee: Expr) -> bool:
    """Return True if a context manager is there to end errors."""
    return callee.op in {"name", "attribute"} and callee.name in {"suppress", "raises"}


def _operations(block: Block) -> int:
    """Return how many calls a block makes."""
    return sum(1 for expr in expressions(block) if expr.op == "call" and expr.role != "python")


def _takes_all(case: ast.match_case) -> bool:
    """Return True for `case _`."""
    match case:
        case ast.match_case(pattern=ast.MatchAs(pattern=None, name=None), guard=None):
            return True
        case _:
            return False


def _captured(pattern: ast.pattern) -> list[str]:
    """Return the variables that a pattern binds."""
    found = []
    for each in ast.walk(pattern):
        if isinstance(each, ast.MatchAs | ast.MatchStar) and each.name is not None:
            found.append(each.name)
        elif isinstance(each, ast.MatchMapping) and each.rest is not None:
            found.append(each.rest)
    return found


def _leaves(block: Block) -> bool:
    return bool(block) and block[-1].op in _ENDS


_BARE: dict[type[ast.stmt], StmtOp] = {
    ast.Pass: "pass",
    ast.Break: "break",
    ast.Continue: "continue",
}
_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.AsyncWith: ("FDL305", "an `async with` block"),
    ast.AsyncFor: ("FDL305", "an `async for` loop"),
    ast.Try: ("FDL304", "a `try` block"),
    ast.TryStar: ("FDL304", "a `try` block"),
    ast.Global: ("FDL311", "a `global` statement"),
    ast.AsyncFunctionDef: ("FDL305", "an async function defined inside"),
    ast.ClassDef: ("FDL318", "a class defined inside"),
}
