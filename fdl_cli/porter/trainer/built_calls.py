"""Arguments of a builder besides its functions: data, epochs, device, schedule."""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from fdl_cli.porter.ir.training import UNFUSED
from fdl_cli.porter.trainer.loop_place import LoopPlace
from fdl_cli.porter.trainer.scope_names import bound, mentioned
from fdl_cli.porter.trainer.training_step import StepParts, is_method, receiver

# Optimizers with a fused kernel.
_FUSED: Final = frozenset({"Adagrad", "Adam", "AdamW", "SGD"})
_SCHEDULES: Final = "torch.optim.lr_scheduler."


def calls_of(
    place: LoopPlace,
    parts: StepParts,
    model: str,
    data: ast.expr,
    outer: ast.For | None,
    schedule: Iterable[str],
) -> Iterator[str]:
    """Yield the calls on the builder, in their order; `schedule` are calls made before."""
    text = place.text(data)
    changing = set() if outer is None else bound([outer])
    again = outer is not None and not _is_lasting(data, changing)
    yield f".dataset(lambda: {text})" if again else f".dataset({text})"
    yield f".num_epochs({_epochs(place, outer)})"
    if parts.clip is not None:
        yield f".max_grad_norm({parts.max_norm()})"
    if parts.scaler is not None:
        yield f".scaler({ast.unparse(parts.scaler)})"
    yield from schedule
    yield f".device({_device(place, model, changing)})"
    # Every bit as it was: no captured steps, no fused kernels, no end at a loss that is not finite.
    yield '.step("eager")'
    yield UNFUSED
    yield ".nan_guard(False)"
    yield ".progress(False)"


def is_schedule(place: LoopPlace, top: ast.For, node: ast.Expr) -> bool:
    """Return True if a statement is the step of one of torch's schedules that is made before the loop."""
    call = node.value
    if not is_method(call, "step") or not place.source.is_alone(place.source.span(node)):
        return False
    assert isinstance(call, ast.Call)
    name = ast.unparse(receiver(call))
    if call.args or call.keywords or name in bound([top]):
        return False
    makers = [
        place.names.dotted(each.value.func)
        for each in ast.walk(place.source.tree)
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and name in map(ast.unparse, each.targets)
    ]
    return bool(makers) and all(
        maker.startswith(_SCHEDULES) and not maker.endswith("ReduceLROnPlateau")
        for maker in makers
    )


def kernel_of(place: LoopPlace, optimizer: ast.expr) -> str:
    """Return the class of an optimizer, if torch has a fused kernel for it and it is made in one way."""
    name = ast.unparse(optimizer)
    made = {
        place.names.dotted(each.value.func)
        for each in ast.walk(place.source.tree)
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and name in map(ast.unparse, each.targets)
    }
    kinds = {item.rpartition(".")[2] for item in made if item.startswith("torch.optim.")}
    return kinds.pop() if len(kinds) == len(made) == 1 and kinds <= _FUSED else ""


def _is_lasting(node: ast.expr, changing: set[str]) -> bool:
    """Return True if an expression gives the same batches again whenever it is iterated."""
    if mentioned([node]) & changing:
        return False
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value) | ast.Subscript(value=value, slice=ast.Constant()):
            return _is_lasting(value, changing)
        case ast.Call(func=ast.Name(id="range"), keywords=[]):
            return True
        case _:
            return False


def _epochs(place: LoopPlace, outer: ast.For | None) -> str:
    if outer is None:
        return "1"
    assert isinstance(outer.iter, ast.Call)
    match outer.iter.args:
        case [count]:
            return place.text(count)
        case [
            ast.Constant(value=1),
            ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)),
        ]:
            return place.text(left)
        case _:
            return f"len({place.text(outer.iter)})"


def _device(place: LoopPlace, model: str, changing: set[str]) -> str:
    """Return the device of the model: the script's expression for it, or where its weights are."""
    for value in _placements(place.source.tree, model):
        match value:
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id=name)]):
                if place.knows(name) and name not in changing:
                    return name
            case _:
                pass
    return f"next({model}.parameters()).device"


def _placements(tree: ast.Module, model: str) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if model in map(ast.unparse, targets):
                yield value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=moved)) as value) if (
                ast.unparse(moved) == model
            ):
                yield value
            case _:
                pass
