"""Recognise training loops: one backward pass, one optimizer step, and nothing unusual about it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.analyse.names import FunctionNode, Names, collect
from fdl_cli.porter.ir.training import LoopIR
from fdl_cli.porter.parse.reader import SourceFile

_CLIPPING = frozenset({"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm",
                       "torch.nn.utils.clip_grad.clip_grad_norm_"})  # fmt: skip
_Loop = ast.For | ast.While


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The statements of a loop that are the training step; `clip` is nothing when it has none."""

    zero_grad: ast.Expr
    backward: ast.Expr
    step: ast.Expr
    clip: ast.Call | None
    clip_statement: ast.Expr | None


@final
class _NotSimpleError(Exception):
    """A loop that stays as it is; the message says why."""


def training_loops(source: SourceFile) -> tuple[LoopIR, ...]:
    """Return every loop of a file that has a backward pass, recognised or with the reason why not."""
    names = collect(source.tree)
    found = [
        _loop(source, names, scope, chain)
        for scope in _scopes(source.tree)
        for chain in _loops_in(scope.body, ())
    ]
    return tuple(sorted(found, key=lambda loop: loop.line))


def _scopes(tree: ast.Module) -> Iterator[ast.Module | FunctionNode]:
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield node


def _loops_in(body: list[ast.stmt], around: tuple[_Loop, ...]) -> Iterator[tuple[_Loop, ...]]:
    """Yield the loops that train, each with the loops right around it, outermost first."""
    for node in body:
        if isinstance(node, FunctionNode | ast.ClassDef):
            continue
        if isinstance(node, _Loop):
            inner = list(_loops_in(node.body, (*around, node)))
            if inner:
                yield from inner
            elif _has_backward(node):
                yield (*around, node)
            continue
        for field in ("body", "orelse", "finalbody"):
            # Behind an `if` or `with` a loop is by itself: what is put before it stays there.
            yield from _loops_in(vars(node).get(field) or [], ())


def _has_backward(loop: _Loop) -> bool:
    return any(_is_method(node, "backward") for node in ast.walk(loop))


def _loop(
    source: SourceFile, names: Names, scope: ast.Module | FunctionNode, chain: tuple[_Loop, ...]
) -> LoopIR:
    loop = chain[-1]
    try:
        parts = _parts(names, loop)
        _refuse_shared_lines(source, parts)
        optimizer = ast.unparse(_receiver(parts.step.value))
        model = _model(source, scope, loop, parts, optimizer)
        place = _place(chain, optimizer, model)
    except _NotSimpleError as problem:
        return LoopIR(
            line=loop.lineno, before=0, model="", optimizer="", zero_grad=None, clip=None,
            max_norm="", step=None, trouble=str(problem),
        )  # fmt: skip
    taken = parts.clip is not None and parts.clip_statement is not None
    return LoopIR(
        line=loop.lineno,
        before=source.span(place).start,
        model=model,
        optimizer=optimizer,
        zero_grad=source.span(parts.zero_grad),
        clip=source.span(parts.clip_statement) if taken and parts.clip_statement else None,
        max_norm=ast.unparse(parts.clip.args[1]) if taken and parts.clip else "",
        step=source.span(parts.step),
        trouble="",
    )


def _parts(names: Names, loop: _Loop) -> _Parts:
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    backwards = [node for node in calls if _is_method(node, "backward")]
    if len(backwards) > 1:
        raise _NotSimpleError("it has several backward passes")
    _refuse_unusual(names, loop, backwards[0])
    direct = [node for node in loop.body if isinstance(node, ast.Expr)]
    backward = _only(direct, "backward", "the backward pass stands inside another statement")
    steps = [node for node in calls if _is_method(node, "step")]
    schedulers = {ast.unparse(_receiver(node)) for node in steps} - _zeroed(calls)
    updates = [node for node in steps if ast.unparse(_receiver(node)) not in schedulers]
    if len(updates) != 1:
        raise _NotSimpleError(
            "its gradients are not cleared by an optimizer that steps in it"
            if not updates
            else "it has several optimizer steps"
        )
    step = next((node for node in direct if node.value is updates[0]), None)
    if step is None:
        raise _NotSimpleError("the optimizer steps inside another statement, not in every turn")
    if updates[0].args or updates[0].keywords:
        raise _NotSimpleError("the optimizer steps with a closure")
    zero = _only(direct, "zero_grad", "the gradients are cleared inside another statement")
    if not loop.body.index(backward) < loop.body.index(step):
        raise _NotSimpleError("the optimizer steps before the backward pass")
    clip, statement = _clipping(names, loop, direct, backward, step)
    return _Parts(
        zero_grad=zero, backward=backward, step=step, clip=clip, clip_statement=statement
    )


def _refuse_unusual(names: Names, loop: _Loop, backward: ast.Call) -> None:
    if backward.args or backward.keywords:
        raise _NotSimpleError("the backward pass has arguments")
    receiver = _receiver(backward)
    if isinstance(receiver, ast.Call) and _is_method(receiver, "scale"):
        raise _NotSimpleError("it scales gradients (mixed precision by hand)")
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            raise _NotSimpleError("it reads or changes gradients by hand")
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            raise _NotSimpleError("it is part of a generator")
        if isinstance(node, ast.Call) and names.dotted(node.func).startswith(
            "torch.autograd.grad"
        ):
            raise _NotSimpleError("it calls `torch.autograd.grad`")


def _zeroed(calls: list[ast.Call]) -> set[str]:
    found = {ast.unparse(_receiver(node)) for node in calls if _is_method(node, "zero_grad")}
    # `model.zero_grad()` clears for whatever optimizer steps; its name then decides.
    if not any(
        "optim" in name.lower() or name.rpartition(".")[2].startswith("opt") for name in found
    ):
        found |= {
            ast.unparse(_receiver(node))
            for node in calls
            if _is_method(node, "step") and "opt" in ast.unparse(_receiver(node)).lower()
        }
    return found


def _only(direct: list[ast.Expr], method: str, otherwise: str) -> ast.Expr:
    found = [node for node in direct if _is_method(node.value, method)]
    if len(found) != 1:
        raise _NotSimpleError(otherwise if not found else f"it calls `{method}` more than once")
    return found[0]


def _clipping(
    names: Names, loop: _Loop, direct: list[ast.Expr], backward: ast.Expr, step: ast.Expr
) -> tuple[ast.Call | None, ast.Expr | None]:
    """Return a clipping that can become part of the step: right before it, and of a fixed limit."""
    for node in direct:
        call = node.value
        if not isinstance(call, ast.Call) or names.dotted(call.func) not in _CLIPPING:
            continue
        between = loop.body.index(backward) < loop.body.index(node) == loop.body.index(step) - 1
        plain = len(call.args) == 2 and not call.keywords and _is_parameters(call.args[0])
        changing = {
            n.id
            for n in ast.walk(loop)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        fixed = (
            plain
            and not {n.id for n in ast.walk(call.args[1]) if isinstance(n, ast.Name)} & changing
        )
        if between and fixed:
            return call, node
    return None, None


def _model(
    source: SourceFile,
    scope: ast.Module | FunctionNode,
    loop: _Loop,
    parts: _Parts,
    optimizer: str,
) -> str:
    """Return the expression of the model that the optimizer trains."""
    if parts.clip is not None:
        return ast.unparse(_receiver(parts.clip.args[0]))
    made = {
        ast.unparse(model)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign) and optimizer in map(ast.unparse, node.targets)
        for model in _trained_by(node.value)
    }
    inside = {name for name in made if _is_known(name, scope, source.tree)}
    if len(inside) == 1:
        return inside.pop()
    switched = {
        ast.unparse(_receiver(node))
        for node in ast.walk(scope)
        if isinstance(node, ast.Call) and _is_method(node, "train") and not node.args
    }
    called = {ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)}
    for candidates in (switched & called, switched):
        if len(candidates) == 1:
            return candidates.pop()
    raise _NotSimpleError("which model the optimizer trains is not clear")


def _trained_by(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the models whose `parameters()` an optimizer is made with."""
    if isinstance(value, ast.Call) and value.args and _is_parameters(value.args[0]):
        yield _receiver(value.args[0])


def _is_known(name: str, scope: ast.Module | FunctionNode, tree: ast.Module) -> bool:
    """Say whether an expression means the same in a scope: a name of it, of the module, of self."""
    root = name.partition(".")[0]
    bound = {arg.arg for node in (scope,) if isinstance(node, FunctionNode) for arg in ast.walk(node.args)
             if isinstance(arg, ast.arg)}  # fmt: skip
    bound |= {
        n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    for node in tree.body:
        for inner in ast.walk(node) if not isinstance(node, FunctionNode | ast.ClassDef) else ():
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                bound.add(inner.id)
    return root in bound


def _place(chain: tuple[_Loop, ...], optimizer: str, model: str) -> _Loop:
    """Return the outermost loop in which neither the model nor the optimizer is made."""
    roots = {optimizer, model, optimizer.partition(".")[0], model.partition(".")[0]}
    for loop in chain:
        stored = {
            ast.unparse(node)
            for node in ast.walk(loop)
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        if not stored & roots:
            return loop
    raise _NotSimpleError("the model or the optimizer is made anew in every turn")


def _refuse_shared_lines(source: SourceFile, parts: _Parts) -> None:
    for node in (parts.zero_grad, parts.clip_statement):
        if node is not None and not _is_alone(source, node):
            raise _NotSimpleError("a part of its step does not have a line of its own")


def _is_alone(source: SourceFile, node: ast.stmt) -> bool:
    span = source.span(node)
    before = source.text[source.line_start(span.start) : span.start]
    after = source.text[span.end : source.line_end(span.end)].strip()
    return not before.strip() and (not after or after.startswith("#"))


def _is_method(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    )


def _is_parameters(node: ast.expr) -> bool:
    return _is_method(node, "parameters")


def _receiver(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Attribute)
    return node.func.value
