"""The training step in a loop: the calls that clear, compute, clip and apply the gradients."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.lower.names import FunctionNode, Names
from fdl_cli.porter.trainer.loop_pieces import own_jumps

CLIPPING = frozenset({"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm",
                      "torch.nn.utils.clip_grad.clip_grad_norm_"})  # fmt: skip
Loop = ast.For | ast.While


@final
class NotMovedError(Exception):
    """A loop that stays as it is: the code of the reason, the message, and the place."""

    def __init__(self, code: str, message: str, node: ast.AST | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line: int | None = None if node is None else vars(node).get("lineno")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The statements that are the training step.

    `always` says whether the step is taken in every turn, and not inside an `if`. `zero` is nothing when
    the closure clears. `clip` is a clipping right before the step, with its statement; `unscale` and
    `update` belong to `scaler`, the loss scaler.
    """

    always: bool
    backwards: tuple[ast.Call, ...]
    step: ast.Expr
    optimizer: ast.expr
    zero: ast.Expr | None = None
    clip: ast.Call | None = None
    clip_statement: ast.Expr | None = None
    scaler: ast.expr | None = None
    unscale: ast.Expr | None = None
    update: ast.Expr | None = None
    closure: ast.expr | None = None

    def removed(self) -> tuple[ast.Expr, ...]:
        """Return the statements that become part of the step."""
        found = (self.zero, self.clip_statement, self.unscale, self.update)
        return tuple(node for node in found if node is not None)

    def max_norm(self) -> str:
        """Return the text of the limit of the gradients' norm; nothing when there is none."""
        return "" if self.clip is None else ast.unparse(_limit(self.clip))


def is_method(node: ast.AST, name: str) -> bool:
    """Return True if a node is a call of a method of that name."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    )


def receiver(node: ast.expr) -> ast.expr:
    """Return the receiver of a method call."""
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Attribute)
    return node.func.value


def stored(loop: ast.AST) -> set[str]:
    """Return the names and attributes that a piece of code sets, as they are written."""
    return {
        ast.unparse(node)
        for node in ast.walk(loop)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def step_calls(loop: ast.AST) -> list[ast.Call]:
    """Return the calls in a loop by which an optimizer, or the scaler of its loss, updates."""
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    steps = [node for node in calls if is_method(node, "step")]
    optimizers = _zeroed(calls)
    return [
        node
        for node in steps
        if ast.unparse(receiver(node)) in optimizers or _is_scaled(node, calls)
    ]


def step_parts(names: Names, loop: Loop) -> StepParts:
    """Return the parts of a loop's step.

    Raises:
        NotMovedError: the step is not one that a session can take.
    """
    _refuse_unusual(names, loop)
    updates = step_calls(loop)
    if not updates:
        raise NotMovedError(
            "FDL402", "its gradients are not cleared by an optimizer that steps in it"
        )
    if len(updates) > 1:
        raise NotMovedError("FDL403", "it has several optimizer steps", updates[1])
    scaled = _is_scaled(updates[0], [n for n in ast.walk(loop) if isinstance(n, ast.Call)])
    closure = bool(updates[0].args) and not scaled
    block, step = _standing(loop, updates[0], "FDL406" if closure else "FDL404")
    if updates[0].keywords or len(updates[0].args) > 1:
        raise NotMovedError("FDL406", "the optimizer steps with more than a closure", step)
    if closure:
        return _closure_parts(loop, block, step)
    return _plain_parts(names, loop, block, step, scaled=scaled)


def _closure_parts(loop: Loop, block: list[ast.stmt], step: ast.Expr) -> StepParts:
    """Return the parts of a step with a closure, which clears the gradients itself."""
    assert isinstance(step.value, ast.Call)
    closure = step.value.args[0]
    inside = [
        inner
        for node in ast.walk(loop)
        if isinstance(node, FunctionNode | ast.Lambda)
        for inner in ast.walk(node)
    ]
    outside = [node for node in ast.walk(loop) if is_method(node, "zero_grad")]
    if any(not any(node is each for each in inside) for node in outside):
        raise NotMovedError("FDL406", "gradients are cleared outside of the closure", outside[0])
    return StepParts(
        always=block is loop.body, backwards=(), step=step, optimizer=receiver(step.value),
        closure=closure,
    )  # fmt: skip


def _plain_parts(
    names: Names, loop: Loop, block: list[ast.stmt], step: ast.Expr, *, scaled: bool
) -> StepParts:
    assert isinstance(step.value, ast.Call)
    optimizer = step.value.args[0] if scaled else receiver(step.value)
    scaler = receiver(step.value) if scaled else None
    backwards = tuple(
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and is_method(node, "backward")
    )
    last = max(backwards, key=lambda node: node.lineno)
    if last.lineno > step.lineno:
        raise NotMovedError("FDL404", "the optimizer steps before the backward pass", step)
    zero = _clearing(loop, block, step, backwards)
    _refuse_gradients(loop, backwards, step)
    _refuse_leaving(loop, backwards, step)
    unscale = update = None
    if scaler is not None:
        unscale = _beside(block, "unscale_", scaler, step, after=False)
        update = _beside(block, "update", scaler, step, after=True)
        if update is None:
            raise NotMovedError("FDL407", "the scaler is not updated right after its step", step)
    elif any(is_method(receiver(node), "scale") for node in backwards):
        raise NotMovedError("FDL407", "the loss is scaled by hand", last)
    clip, statement = _clipping(names, loop, block, step, unscale)
    return StepParts(
        always=block is loop.body, backwards=backwards, step=step, optimizer=optimizer,
        zero=zero, clip=clip, clip_statement=statement, scaler=scaler,
        unscale=unscale if clip is not None else None,
        update=update,
    )  # fmt: skip


def _refuse_unusual(names: Names, loop: Loop) -> None:
    for node in ast.walk(loop):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            raise NotMovedError("FDL405", "it is part of a generator", node)
        if isinstance(node, ast.Call) and names.dotted(node.func).startswith(
            "torch.autograd.grad"
        ):
            raise NotMovedError("FDL405", "it calls `torch.autograd.grad`", node)


def _refuse_gradients(loop: Loop, backwards: tuple[ast.Call, ...], step: ast.Expr) -> None:
    """Refuse gradients that are used when a session has forgotten them, or sees others."""
    first = min(node.lineno for node in backwards)
    for node in ast.walk(loop):
        if not isinstance(node, ast.Attribute) or node.attr != "grad":
            continue
        if not first <= node.lineno < step.lineno:
            raise NotMovedError("FDL405", "it reads or changes gradients by hand", node)


def _refuse_leaving(loop: Loop, backwards: tuple[ast.Call, ...], step: ast.Expr) -> None:
    """Refuse a turn that leaves gradients behind which only the next turn would clear."""
    first = min(node.lineno for node in backwards)
    for node in own_jumps(loop.body):
        if first <= node.lineno < step.lineno:
            raise NotMovedError(
                "FDL404", "a turn can end between its backward pass and its update", node
            )


def _zeroed(calls: list[ast.Call]) -> set[str]:
    found = {ast.unparse(receiver(node)) for node in calls if is_method(node, "zero_grad")}
    # `model.zero_grad()` clears for whatever optimizer steps; its name then decides.
    if not any(
        "optim" in name.lower() or name.rpartition(".")[2].startswith("opt") for name in found
    ):
        found |= {
            ast.unparse(receiver(node))
            for node in calls
            if is_method(node, "step") and "opt" in ast.unparse(receiver(node)).lower()
        }
    return found


def _is_scaled(step: ast.Call, calls: list[ast.Call]) -> bool:
    """Return True if a step is that of a loss scaler: `scaler.step(optimizer)`."""
    name = ast.unparse(receiver(step))
    scales = {ast.unparse(receiver(node)) for node in calls if is_method(node, "scale")}
    return len(step.args) == 1 and name in scales


def _standing(loop: Loop, call: ast.Call, code: str) -> tuple[list[ast.stmt], ast.Expr]:
    """Return the block and the statement of a call that is taken once in a turn, or in some turns."""
    for block in _blocks(loop.body):
        for node in block:
            if isinstance(node, ast.Expr) and node.value is call:
                return block, node
    raise NotMovedError(
        code, "the optimizer steps inside another statement, not in every turn", call
    )


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for node in body:
        if isinstance(node, ast.If):
            yield from _blocks(node.body)
            yield from _blocks(node.orelse)


def _clearing(
    loop: Loop, block: list[ast.stmt], step: ast.Expr, backwards: tuple[ast.Call, ...]
) -> ast.Expr:
    """Return the statement that clears the gradients, once between a step and the next part."""
    calls = [
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and is_method(node, "zero_grad")
    ]
    if not calls:
        raise NotMovedError("FDL404", "the gradients are not cleared in it", step)
    if len(calls) > 1:
        raise NotMovedError("FDL404", "it calls `zero_grad` more than once", calls[1])
    if _keeps_zeros(calls[0]):
        raise NotMovedError(
            "FDL404", "`zero_grad(set_to_none=False)` keeps gradients that are 0", calls[0]
        )
    found = next((n for n in block if isinstance(n, ast.Expr) and n.value is calls[0]), None)
    first = min(node.lineno for node in backwards)
    after = found is not None and block.index(found) > block.index(step)
    if found is None or not (after or (block is loop.body and found.lineno < first)):
        raise NotMovedError(
            "FDL404", "the gradients are cleared inside another statement", calls[0]
        )
    return found


def _keeps_zeros(call: ast.Call) -> bool:
    values = [*call.args, *(item.value for item in call.keywords if item.arg == "set_to_none")]
    return any(isinstance(value, ast.Constant) and value.value is False for value in values)


def _beside(
    block: list[ast.stmt], method: str, scaler: ast.expr, step: ast.Expr, *, after: bool
) -> ast.Expr | None:
    """Return a statement of the block that calls a method of the scaler, before or after the step."""
    at = block.index(step)
    for node in block[at + 1 :] if after else block[:at]:
        if (
            isinstance(node, ast.Expr)
            and is_method(node.value, method)
            and ast.unparse(receiver(node.value)) == ast.unparse(scaler)
        ):
            return node
    return None


def _clipping(
    names: Names, loop: Loop, block: list[ast.stmt], step: ast.Expr, unscale: ast.Expr | None
) -> tuple[ast.Call | None, ast.Expr | None]:
    """Return a clipping that can become part of the step: right before it, and of a fixed limit."""
    assert isinstance(step.value, ast.Call)
    scaled = bool(step.value.args)
    at = block.index(step)
    node = block[at - 1] if at else None
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None, None
    call = node.value
    if names.dotted(call.func) not in CLIPPING or not call.args or not _is_plain(call):
        return None, None
    if scaled and (unscale is None or at < 2 or block[at - 2] is not unscale):
        return None, None
    changing = stored(loop)
    reads = {n.id for n in ast.walk(_limit(call)) if isinstance(n, ast.Name)}
    return (None, None) if reads & changing else (call, node)


def _is_plain(call: ast.Call) -> bool:
    """Return True if a clipping names the parameters of a model and a limit, and nothing else."""
    given = len(call.args) + len(call.keywords)
    named = all(item.arg == "max_norm" for item in call.keywords)
    return is_parameters(call.args[0]) and given == 2 and named


def _limit(call: ast.Call) -> ast.expr:
    return call.args[1] if len(call.args) == 2 else call.keywords[0].value


def is_parameters(node: ast.expr) -> bool:
    """Return True if an expression is `model.parameters()`."""
    return is_method(node, "parameters") and isinstance(node, ast.Call) and not node.args
