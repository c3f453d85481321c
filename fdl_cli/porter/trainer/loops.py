"""Recognition of training loops, and for each the possible move of its step or its whole, or the refusal."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.training import BuiltIR, LoopIR, SetupIR
from fdl_cli.porter.lower.names import FunctionNode, collect
from fdl_cli.porter.parse.reader import SourceFile
from fdl_cli.porter.trainer.built_calls import kernel_of
from fdl_cli.porter.trainer.built_loops import built_loop
from fdl_cli.porter.trainer.loop_place import LoopPlace
from fdl_cli.porter.trainer.training_step import (
    Loop,
    NotMovedError,
    StepParts,
    is_method,
    is_parameters,
    receiver,
    step_calls,
    step_parts,
    stored,
)


def training_loops(source: SourceFile) -> tuple[LoopIR, ...]:
    """Return every loop of a file that trains: how it can move, or the reason why not."""
    names = collect(source.tree)
    found = []
    for scope in _scopes(source.tree):
        seen: set[int] = set()
        for innermost in _loops_in(scope.body, ()):
            chain = _with_step(innermost)
            if id(chain[-1]) not in seen:
                seen.add(id(chain[-1]))
                place = LoopPlace(source=source, names=names, scope=scope, chain=chain)
                found.append(_loop(place))
    return tuple(sorted(found, key=lambda loop: loop.line))


def _scopes(tree: ast.Module) -> Iterator[ast.Module | FunctionNode]:
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield node


def _loops_in(body: list[ast.stmt], around: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    """Yield the loops that train, each with the loops right around it, outermost first."""
    for node in body:
        if isinstance(node, FunctionNode | ast.ClassDef):
            continue
        if isinstance(node, Loop):
            inner = list(_loops_in(node.body, (*around, node)))
            if inner:
                yield from inner
            elif _trains(node):
                yield (*around, node)
            continue
        for field in ("body", "orelse", "finalbody"):
            # Behind an `if` or `with` a loop is by itself: statements put before it stay there.
            yield from _loops_in(vars(node).get(field) or [], ())


def _trains(loop: Loop) -> bool:
    """Return True if a loop computes gradients, or lets an optimizer do it by a closure."""
    return any(
        is_method(node, "backward")
        or (isinstance(node, ast.Call) and is_method(node, "step") and _is_closure_step(node))
        for node in ast.walk(loop)
    )


def _is_closure_step(call: ast.Call) -> bool:
    return len(call.args) == 1 and "opt" in ast.unparse(receiver(call)).lower()


def _with_step(chain: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Return the loop in which an optimizer steps: gradients may add up in a loop inside of it."""
    for length in range(len(chain), 0, -1):
        if step_calls(chain[length - 1]):
            return chain[:length]
    return chain


def _loop(place: LoopPlace) -> LoopIR:
    loop = place.loop
    try:
        parts = step_parts(place.names, loop)
        _refuse_shared_lines(place.source, parts)
        model, parts = _model(place, parts)
        before = _outermost(place.chain, ast.unparse(parts.optimizer), model)
    except NotMovedError as problem:
        reason = _reason(loop, problem)
        return LoopIR(line=loop.lineno, model="", setup=None, not_set_up=reason, built=None,
                      not_built=reason)  # fmt: skip
    built, not_built = _built(place, parts, model)
    return LoopIR(
        line=loop.lineno,
        model=model,
        setup=_setup(place.source, parts, before),
        not_set_up=None,
        built=built,
        not_built=not_built,
    )


def _reason(loop: Loop, problem: NotMovedError) -> Reason:
    line = loop.lineno if problem.line is None else problem.line
    return Reason(line=line, code=problem.code, message=problem.message)


def _setup(source: SourceFile, parts: StepParts, before: Loop) -> SetupIR:
    options = []
    if parts.clip is not None:
        options.append(f"max_grad_norm={parts.max_norm()}")
    if parts.scaler is not None:
        options.append(f"scaler={ast.unparse(parts.scaler)}")
    return SetupIR(
        before=source.span(before).start,
        optimizer=ast.unparse(parts.optimizer),
        options=tuple(options),
        removed=tuple(source.span(node) for node in parts.removed()),
        step=source.span(parts.step),
        taken=tuple(node.lineno for node in (parts.step, *parts.removed())),
        closure="" if parts.closure is None else ast.unparse(parts.closure),
    )


def _built(place: LoopPlace, parts: StepParts, model: str) -> tuple[BuiltIR | None, Reason | None]:
    try:
        built = built_loop(place, parts, model)
    except NotMovedError as problem:
        return None, _reason(place.loop, problem)
    return replace(built, kernel=kernel_of(place, parts.optimizer)), None


# ---- what is trained ---------------------------------------------------------------------------


def _model(place: LoopPlace, parts: StepParts) -> tuple[str, StepParts]:
    """Return the expression of the model that the optimizer trains.

    A clipping of something else than what it trains stays where it is.
    """
    made = {
        ast.unparse(model)
        for node in ast.walk(place.source.tree)
        if isinstance(node, ast.Assign)
        and ast.unparse(parts.optimizer) in map(ast.unparse, node.targets)
        for model in _trained_by(node.value)
    }
    inside = {name for name in made if place.knows(name)}
    if parts.clip is not None:
        clipped = ast.unparse(receiver(parts.clip.args[0]))
        if not inside or clipped in inside:
            return clipped, parts
        parts = replace(parts, clip=None, clip_statement=None, unscale=None)
    if len(inside) == 1:
        return inside.pop(), parts
    switched = {
        ast.unparse(receiver(node))
        for node in ast.walk(place.scope)
        if isinstance(node, ast.Call) and is_method(node, "train") and not node.args
    }
    called = {
        ast.unparse(node.func) for node in ast.walk(place.loop) if isinstance(node, ast.Call)
    }
    for candidates in (switched & called, switched):
        if len(candidates) == 1:
            return candidates.pop(), parts
    raise NotMovedError("FDL408", "which model the optimizer trains is not clear")


def _trained_by(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the models whose `parameters()` an optimizer is made with."""
    if isinstance(value, ast.Call) and value.args and is_parameters(value.args[0]):
        yield receiver(value.args[0])


def _outermost(chain: tuple[Loop, ...], optimizer: str, model: str) -> Loop:
    """Return the outermost loop in which neither the model nor the optimizer is made."""
    roots = {optimizer, model, optimizer.partition(".")[0], model.partition(".")[0]}
    for loop in chain:
        if not stored(loop) & roots:
            return loop
    raise NotMovedError("FDL408", "the model or the optimizer is made again in every turn")


def _refuse_shared_lines(source: SourceFile, parts: StepParts) -> None:
    for node in parts.removed():
        if not source.is_alone(source.span(node)):
            raise NotMovedError(
                "FDL409", "a part of its step does not have a line of its own", node
            )
