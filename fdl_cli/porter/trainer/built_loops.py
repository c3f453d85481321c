"""Move of a training loop into a `Trainer.builder`: the place of each part, or the refusal."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from fdl_cli.porter.ir.training import BuiltIR
from fdl_cli.porter.lower.names import FunctionNode
from fdl_cli.porter.trainer.built_names import Naming
from fdl_cli.porter.trainer.loop_pieces import Pieces, own_jumps
from fdl_cli.porter.trainer.loop_place import LoopPlace
from fdl_cli.porter.trainer.scope_names import mentioned
from fdl_cli.porter.trainer.training_step import (
    NotMovedError,
    StepParts,
    is_method,
    receiver,
    stored,
)

# Nodes whose meaning changes inside another function.
_SCOPED: Final = frozenset({"locals", "vars", "exec", "eval", "super", "dir"})
_DISTRIBUTED: Final = ("torch.distributed.", "torch.nn.parallel.DistributedDataParallel", "accelerate.",
                       "horovod.", "torch_xla.")  # fmt: skip
# Calls that do nothing with a model, so that it is the same before and after its update.
_HARMLESS: Final = frozenset({"item", "detach", "cpu", "numpy", "append", "size", "data", "tolist", "format",
                              "update", "print", "float", "int", "str", "len", "round", "sum", "max", "min",
                              "argmax", "eq", "mean", "view_as", "isnan", "isfinite"})  # fmt: skip


def built_loop(place: LoopPlace, parts: StepParts, model: str) -> BuiltIR:
    """Return how a loop moves to the builder.

    Raises:
        NotMovedError: it cannot, with the same meaning.
    """
    _refuse_surroundings(place)
    loop = place.loop
    if not isinstance(loop, ast.For) or loop.orelse:
        raise NotMovedError("FDL421", "it is no plain `for` loop over batches", loop)
    pieces = _pieces(place, loop, parts, model)
    outer = _epoch_loop(place, parts, model, pieces)
    return Naming(place, pieces, parts, model, outer).built()


def _refuse_surroundings(place: LoopPlace) -> None:
    first, last = place.loop.lineno, place.loop.end_lineno or 0
    for node in ast.walk(place.source.tree):
        if isinstance(node, ast.Call) and place.names.dotted(node.func).startswith(_DISTRIBUTED):
            raise NotMovedError("FDL428", "the training runs in several processes", node)
    for node in ast.walk(place.scope):
        if not isinstance(node, ast.Try) or not node.lineno < first <= last <= (
            node.end_lineno or 0
        ):
            continue
        for handler in node.handlers:
            if handler.type is not None and "KeyboardInterrupt" in ast.unparse(handler.type):
                raise NotMovedError("FDL429", "Ctrl-C is caught around it", handler)


def _pieces(place: LoopPlace, loop: ast.For, parts: StepParts, model: str) -> Pieces:
    """Cut the body of a loop at its step."""
    if parts.closure is not None:
        raise NotMovedError("FDL426", "the optimizer steps with a closure", parts.step)
    if not parts.always:
        raise NotMovedError("FDL423", "it updates in some of its turns only", parts.step)
    backward = _backward(loop, parts)
    at, step = loop.body.index(backward), loop.body.index(parts.step)
    removed = parts.removed()
    pieces = Pieces(
        loop=loop,
        backward=backward,
        step=parts.step,
        loss=_loss(parts),
        train=_without(loop.body[:at], removed),
        between=_without(loop.body[at + 1 : step], removed),
        after=_without(loop.body[step + 1 :], removed),
    )
    for node in (backward, parts.step, loop.body[0]):
        if not place.source.is_alone(place.source.span(node)) and node is not loop.body[0]:
            raise NotMovedError(
                "FDL409", "a part of its step does not have a line of its own", node
            )
    if loop.body[0].lineno <= (loop.iter.end_lineno or 0):
        raise NotMovedError("FDL409", "its body does not have lines of its own", loop)
    _refuse_jumps(pieces)
    _refuse_between(pieces, parts, model)
    _refuse_scoped(loop, place)
    return pieces


def _without(statements: Sequence[ast.stmt], removed: Sequence[ast.stmt]) -> tuple[ast.stmt, ...]:
    return tuple(node for node in statements if not any(node is each for each in removed))


def _backward(loop: ast.For, parts: StepParts) -> ast.Expr:
    if len(parts.backwards) > 1:
        raise NotMovedError("FDL425", "it has several backward passes", parts.backwards[1])
    (call,) = parts.backwards
    if call.args or call.keywords:
        raise NotMovedError("FDL425", "the backward pass has arguments", call)
    for node in loop.body:
        if isinstance(node, ast.Expr) and node.value is call:
            return node
    raise NotMovedError("FDL425", "the backward pass stands inside another statement", call)


def _loss(parts: StepParts) -> ast.expr:
    """Return the expression of the loss, without the scaler around it."""
    found = receiver(parts.backwards[0])
    if parts.scaler is None:
        return found
    if not is_method(found, "scale") or ast.unparse(receiver(found)) != ast.unparse(parts.scaler):
        raise NotMovedError("FDL407", "the backward pass does not start at the scaled loss", found)
    assert isinstance(found, ast.Call)
    return found.args[0]


def _refuse_jumps(pieces: Pieces) -> None:
    for node in own_jumps(pieces.train):
        raise NotMovedError("FDL422", "a turn can end before its backward pass", node)
    for node in own_jumps([*pieces.between, *pieces.after]):
        if isinstance(node, ast.Return):
            raise NotMovedError("FDL422", "it returns out of the loop", node)


def _refuse_between(pieces: Pieces, parts: StepParts, model: str) -> None:
    """Refuse a statement that would find another model if it came after the update."""
    trained = {ast.unparse(parts.optimizer).partition(".")[0], model.partition(".")[0]}
    for node in pieces.between:
        calls = {
            ast.unparse(call.func).rpartition(".")[2]
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        }
        jumps = list(own_jumps([node]))
        if not calls <= _HARMLESS or mentioned([node]) & trained or jumps:
            raise NotMovedError(
                "FDL424", "something stands between the backward pass and the update", node
            )


def _refuse_scoped(loop: ast.For, place: LoopPlace) -> None:
    for node in ast.walk(place.scope):
        # Nothing of the loop is available before it.
        if not isinstance(node, ast.Call) or node.lineno < loop.lineno:
            continue
        called = _scoped_call(node)
        if called and (called != "super" or node.lineno <= (loop.end_lineno or 0)):
            raise NotMovedError("FDL427", f"`{called}()` asks for its names", node)
    for node in ast.walk(loop):
        if isinstance(node, ast.Global | ast.Nonlocal):
            raise NotMovedError("FDL427", "it declares where its names belong", node)


def _scoped_call(node: ast.Call) -> str:
    """Return the name of a function that means something else in another scope."""
    if not isinstance(node.func, ast.Name) or node.func.id not in _SCOPED:
        return ""
    return "" if node.func.id in {"vars", "dir"} and node.args else node.func.id


# ---- the loop over epochs ----------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Outer:
    """The parts of the loop around a loop that the analysis reads."""

    loop: ast.For
    before: tuple[ast.stmt, ...]
    after: tuple[ast.stmt, ...]


def _epoch_loop(place: LoopPlace, parts: StepParts, model: str, pieces: Pieces) -> ast.For | None:
    """Return the loop over epochs, when every turn of it is one epoch and nothing leaves it early."""
    if len(place.chain) < 2:
        return None
    loop = place.chain[-2]
    if not isinstance(loop, ast.For) or not _counts(loop) or place.loop not in loop.body:
        return None
    at = loop.body.index(place.loop)
    outer = _Outer(loop=loop, before=tuple(loop.body[:at]), after=tuple(loop.body[at + 1 :]))
    if any(isinstance(node, ast.Break) for node in own_jumps([*pieces.between, *pieces.after])):
        return None
    if any(_objections(outer)) or loop.body[0].lineno <= (loop.iter.end_lineno or 0):
        return None
    fixed = {model, *_roots(parts), model.partition(".")[0]}
    limit = mentioned([parts.clip]) if parts.clip is not None else set()
    return None if stored(loop) & (fixed | limit) else loop


def _roots(parts: StepParts) -> Iterator[str]:
    for node in (parts.optimizer, parts.scaler):
        if node is not None:
            yield ast.unparse(node)
            yield ast.unparse(node).partition(".")[0]


def _counts(loop: ast.For) -> bool:
    """Return True if a loop counts up: `for epoch in range(...)`."""
    items = loop.iter
    return (
        isinstance(loop.target, ast.Name)
        and not loop.orelse
        and isinstance(items, ast.Call)
        and isinstance(items.func, ast.Name)
        and items.func.id == "range"
        and 1 <= len(items.args) <= 2
        and not items.keywords
        and not any(isinstance(item, ast.Starred) for item in items.args)
    )


def _objections(outer: _Outer) -> Iterator[object]:
    """Yield the statements that keep a loop around a loop from being one over epochs."""
    around = [*outer.before, *outer.after]
    yield from own_jumps(around)
    for node in around:
        for inner in ast.walk(node):
            if is_method(inner, "backward") or isinstance(inner, ast.Global | ast.Nonlocal):
                yield inner
            if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
                yield inner
            if isinstance(inner, FunctionNode | ast.ClassDef):
                yield inner
            if isinstance(inner, ast.Call) and _scoped_call(inner):
                yield inner
