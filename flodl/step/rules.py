"""The update rules of torch's optimizers on plain tensors, to be captured together with the backward.

A rule has two halves: `host` computes the numbers that change from step to step (rates, corrections of
the bias) in Python, in double precision as torch does, and `update` is the arithmetic on tensors.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

from torch import Tensor, optim

from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Group: TypeAlias = "dict[str, Any]"
State: TypeAlias = "dict[str, Tensor]"
Flags: TypeAlias = "tuple[object, ...]"


@final
@dataclass(slots=True)
class Clock:
    """The progress of the parameters of one cohort: the step count, and NAdam's product."""

    step: float
    product: float = 1.0
    factor: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """The update rule of one kind of optimizer.

    `host(group, clock)` gives what the arithmetic is specialised for, and the numbers of this step.
    """

    host: Callable[[Group, Clock], tuple[Flags, tuple[float, ...]]]
    update: Callable[[Tensor, Tensor, State, Sequence[Tensor], Flags], None]


def _decayed(p: Tensor, g: Tensor, decay: object, decoupled: object, amount: Tensor) -> Tensor:
    """Apply weight decay: to the parameter if it is decoupled, else to the gradient."""
    if decay and decoupled:
        p.mul_(amount)
    elif decay:
        return g + amount * p
    return g


def _decay_amount(group: Group, *, decoupled: bool) -> float:
    decay = float(group["weight_decay"])
    return 1.0 - float(group["lr"]) * decay if decoupled else decay


def _host_sgd(group: Group, clock: Clock) -> tuple[Flags, tuple[float, ...]]:
    del clock
    momentum, decay = float(group["momentum"]), float(group["weight_decay"])
    flags = (momentum != 0, group["nesterov"], decay != 0, group["maximize"])
    return flags, (float(group["lr"]), momentum, 1.0 - float(group["dampening"]), decay)


def _update_sgd(
    p: Tensor, g: Tensor, state: State, numbers: Sequence[Tensor], flags: Flags
) -> None:
    lr, momentum, undamped, decay = numbers
    has_momentum, nesterov, has_decay, maximize = flags
    g = -g if maximize else g
    g = g + decay * p if has_decay else g
    if has_momentum:
        held = state["momentum_buffer"]
        held.mul_(momentum).add_(undamped * g)
        g = g + momentum * held if nesterov else held
    p.sub_(lr * g)


def _host_adam(group: Group, clock: Clock) -> tuple[Flags, tuple[float, ...]]:
    beta1, beta2 = map(float, group["betas"])
    decoupled = bool(group.get("decoupled_weight_decay", False))
    flags = (group["amsgrad"], group["weight_decay"] != 0, decoupled, group["maximize"])
    return flags, (
        float(group["lr"]) / (1.0 - beta1**clock.step),
        1.0 - beta1,
        beta2,
        1.0 - beta2,
        math.sqrt(1.0 - beta2**clock.step),
        float(group["eps"]),
        _decay_amount(group, decoupled=decoupled),
    )


def _update_adam(
    p: Tensor, g: Tensor, state: State, numbers: Sequence[Tensor], flags: Flags
) -> None:
    size, rate1, beta2, rate2, root, eps, amount = numbers
    amsgrad, decay, decoupled, maximize = flags
    g = _decayed(p, -g if maximize else g, decay, decoupled, amount)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.add_(rate1 * (g - mean))
    square.mul_(beta2).add_(rate2 * g * g)
    if amsgrad:
        largest = state["max_exp_avg_sq"]
        largest.copy_(largest.maximum(square))
        square = largest
    p.sub_(size * mean / (square.sqrt() / root + eps))


def _host_rmsprop(group: Group, clock: Clock) -> tuple[Flags, tuple[float, ...]]:
    del clock
    alpha, decay, momentum = map(float, (group["alpha"], group["weight_decay"], group["momentum"]))
    flags = (group["centered"], momentum != 0, decay != 0, group["maximize"])
    return flags, (float(group["lr"]), alpha, 1.0 - alpha, float(group["eps"]), decay, momentum)


def _update_rmsprop(
    p: Tensor, g: Tensor, state: State, numbers: Sequence[Tensor], flags: Flags
) -> None:
    lr, alpha, rate, eps, decay, momentum = numbers
    centered, has_momentum, has_decay, maximize = flags
    g = -g if maximize else g
    g = g + decay * p if has_decay else g
    square = state["square_avg"]
    square.mul_(alpha).add_(rate * g * g)
    spread = square
    if centered:
        mean = state["grad_avg"]
        mean.add_(rate * (g - mean))
        spread = square - mean * mean
    move = g / (spread.sqrt() + eps)
    if has_momentum:
        held = state["momentum_buffer"]
        held.mul_(momentum).add_(move)
        move = held
    p.sub_(lr * move)


def _host_adagrad(group: Group, clock: Clock) -> tuple[Flags, tuple[float, ...]]:
    decay = float(group["weight_decay"])
    rate = float(group["lr"]) / (1.0 + (clock.step - 1.0) * float(group["lr_decay"]))
    return (decay != 0, group["maximize"]), (rate, float(group["eps"]), decay)


def _update_adagrad(
    p: Tensor, g: Tensor, state: State, numbers: Sequence[Tensor], flags: Flags
) -> None:
    rate, eps, decay = numbers
    has_decay, maximize = flags
    g = -g if maximize else g
    g = g + decay * p if has_decay else g
    state["sum"].add_(g * g)
    p.sub_(rate * g / (state["sum"].sqrt() + eps))


def _host_radam(group: Group, clock: Clock) -> tuple[Flags, tuple[float, ...]]:
    beta1, beta2 = map(float, group["betas"])
    step, power = clock.step, beta2**clock.step
    limit = 2.0 / (1.0 - beta2) - 1.0
    length = limit - 2.0 * step * power / (1.0 - power)
    adaptive, plain = 0.0, 1.0
    if length > 5.0:
        rectified = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        adaptive, plain = math.sqrt(rectified) * math.sqrt(1.0 - power), 0.0
    decoupled = bool(group["decoupled_weight_decay"])
    flags = (group["weight_decay"] != 0, decoupled, group["maximize"])
    return flags, (
        float(group["lr"]) / (1.0 - beta1**step),
        1.0 - beta1,
        beta2,
        1.0 - beta2,
        adaptive,
        plain,
        float(group["eps"]),
        _decay_amount(group, decoupled=decoupled),
    )


def _update_radam(
    p: Tensor, g: Tensor, state: State, numbers: Sequence[Tensor], flags: Flags
) -> None:
    size, rate1, beta2, rate2, adaptive, plain, eps, amount = numbers
    decay, decoupled, maximize = flags
    g = _decayed(p, -g if maximize else g, decay, decoupled, amount)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.add_(rate1 * (g - mean))
    square.mul_(beta2).add_(rate2 * g * g)
    p.sub_(size * mean * (adaptive / (square.sqrt() + eps) + plain))


def _host_nadam(group: Group, clock: Clock) -> tuple[Flags, tuple[float, ...]]:
    beta1, beta2 = map(float, group["betas"])
    decay, lr, step = float(group["momentum_decay"]), float(group["lr"]), clock.step
    mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * decay))
    following = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1.0) * decay))
    clock.factor = mu
    product = clock.product * mu
    decoupled = bool(group["decoupled_weight_decay"])
    flags = (group["weight_decay"] != 0, decoupled, group["maximize"])
    return flags, (
        lr * (1.0 - mu) / (1.0 - product),
        lr * following / (1.0 - product * following),
        1.0 - beta1,
        beta2,
        1.0 - beta2,
        1.0 / (1.0 - beta2**step),
        float(group["eps"]),
        _decay_amount(group, decoupled=decoupled),
    )


def _update_nadam(
    p: Tensor, g: Tensor, state: State, numbers: Sequence[Tensor], flags: Flags
) -> None:
    now, following, rate1, beta2, rate2, correction, eps, amount = numbers
    decay, decoupled, maximize = flags
    g = _decayed(p, -g if maximize else g, decay, decoupled, amount)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.add_(rate1 * (g - mean))
    square.mul_(beta2).add_(rate2 * g * g)
    spread = (square * correction).sqrt() + eps
    p.sub_((now * g + following * mean) / spread)


_RULES: dict[type[optim.Optimizer], Rule] = {
    optim.SGD: Rule(_host_sgd, _update_sgd),
    optim.Adam: Rule(_host_adam, _update_adam),
    optim.AdamW: Rule(_host_adam, _update_adam),
    optim.RMSprop: Rule(_host_rmsprop, _update_rmsprop),
    optim.Adagrad: Rule(_host_adagrad, _update_adagrad),
    optim.RAdam: Rule(_host_radam, _update_radam),
    optim.NAdam: Rule(_host_nadam, _update_nadam),
}


def rule_of(optimizer: optim.Optimizer) -> Rule:
    """Return the rule of an optimizer.

    Raises:
        RefusedStepError: its update is not one of those that are known here.
    """
    for kind in type(optimizer).__mro__:
        rule = _RULES.get(kind)
        if rule is not None:
            step, known = type(optimizer).step, kind.step  # type: ignore[attr-defined]
            if inspect.unwrap(step) is inspect.unwrap(known):
                return rule
            break
    known_names = ", ".join(kind.__name__ for kind in _RULES)
    raise RefusedStepError(f"the update of {type(optimizer).__name__} is not one of {known_names}")
