"""Operations on sets of parameters: clip, freeze, cast, collect."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias, final

import torch
from torch import Tensor, nn

from flodl.iterables import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Parameters: TypeAlias = "nn.Module | Tensor | Iterable[Tensor]"


def parameters_of(target: Parameters) -> list[Tensor]:
    """Return the parameters of a module, or the given ones as a list.

    Raises:
        ValueError: the parameters are a generator that was read to its end before.

    Warns:
        UserWarning: another iterator gives no parameters.
    """
    if isinstance(target, nn.Module):
        return list(target.parameters())
    if isinstance(target, Tensor):
        return [target]
    return listed(target, "parameters", callers=2)


def in_model_order(model: nn.Module, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return parameters in the order of the model, and those that it does not have behind them.

    The norm of all gradients is a sum of floats: `clip_grad_norm_(model.parameters())` adds them in this
    order, whatever the groups of the optimizer are.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> [each.dim() for each in in_model_order(layer, [layer.bias, layer.weight])]
        [2, 1]
    """
    wanted = {id(each) for each in parameters}
    first: list[Tensor] = [each for each in model.parameters() if id(each) in wanted]
    known = {id(each) for each in first}
    return [*first, *(each for each in parameters if id(each) not in known)]


@final
class ModelOrder:
    """The order of `in_model_order`, found once for as long as the parameters are the same."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._given: list[Tensor] = []
        self._ordered: list[Tensor] = []

    def __call__(self, parameters: list[Tensor]) -> list[Tensor]:
        """Return the parameters in the order of the model."""
        given = self._given
        same = len(given) == len(parameters) and all(map(operator.is_, given, parameters))
        if not same:
            self._given = parameters
            self._ordered = in_model_order(self._model, parameters)
        return self._ordered


def clip_grad_norm(parameters: Parameters, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale all gradients down so that their total norm is at most `max_norm`; return the norm before.

    With a gradient scaler, unscale first: `scaler.step(optimizer, max_norm=...)` does it in that order.

    Example:
        >>> weight = nn.Parameter(torch.ones(4)); weight.grad = torch.full((4,), 3.0)
        >>> clip_grad_norm([weight], 1.0)
        tensor(6.)
        >>> weight.grad.norm()
        tensor(1.0000)
    """
    return nn.utils.clip_grad_norm_(parameters_of(parameters), max_norm, norm_type=norm_type)


def clip_grad_value(parameters: Parameters, clip_value: float) -> Tensor:
    """Clamp all gradients to `[-clip_value, clip_value]`; return the largest absolute one before."""
    gradients = [each.grad for each in parameters_of(parameters) if each.grad is not None]
    if not gradients:
        return torch.tensor(0.0)
    device = gradients[0].device
    largest = torch.stack(
        [torch.linalg.vector_norm(each, float("inf")).to(device) for each in gradients]
    ).max()
    with torch.no_grad():
        for each in gradients:
            each.clamp_(-clip_value, clip_value)
    return largest


def freeze(target: Parameters) -> None:
    """Stop the training of these parameters; optimizers skip them from the next `zero_grad` on.

    Their gradients are dropped, so that weight decay and momentum do not move them either.
    """
    for each in parameters_of(target):
        each.requires_grad_(False)
        each.grad = None


def unfreeze(target: Parameters) -> None:
    """Train these parameters again."""
    for each in parameters_of(target):
        each.requires_grad_(True)


def is_frozen(target: Parameters) -> bool:
    """Return whether none of these parameters is trained; without parameters there is nothing to freeze."""
    found = parameters_of(target)
    return bool(found) and not any(each.requires_grad for each in found)


def freeze_names(module: nn.Module, names: Iterable[str]) -> tuple[str, ...]:
    """Freeze parameters by name, such as `LoadReport.loaded`; return those that are parameters.

    Names of buffers are passed over; a name that the module does not have is an error.

    Raises:
        KeyError: the module has no such parameter or buffer.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    known = set(parameters) | set(module.state_dict(keep_vars=True))
    frozen = []
    for name in listed(names, "names"):
        if name not in known:
            raise KeyError(f"{type(module).__name__} has no parameter or buffer {name!r}")
        if name in parameters:
            freeze(parameters[name])
            frozen.append(name)
    return tuple(frozen)


def trainable_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen, each once."""
    return [each for each in module.parameters() if each.requires_grad]


def collect_parameters(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Return the parameters of several modules in order, a shared one only once."""
    given = listed(modules, "modules")
    found = {id(each): each for module in given for each in module.parameters()}
    return list(found.values())


def cast_parameters(target: Parameters, dtype: torch.dtype) -> int:
    """Change the dtype of floating parameters and their gradients in place; return how many changed.

    Optimizers keep state in the dtype that they saw first: make the optimizer after the cast.
    """
    changed = 0
    for each in parameters_of(target):
        if each.dtype != dtype and each.is_floating_point():
            gradient, each.grad = each.grad, None
            each.data = each.data.to(dtype)
            each.grad = None if gradient is None else gradient.to(dtype)
            changed += 1
    return changed


def move_to_device(module: nn.Module, device: torch.device | str) -> nn.Module:
    """Move a module in place, before its optimizer is made, and return it."""
    return module.to(device)


def zero_grad(target: Parameters) -> None:
    """Forget the gradients of a tensor, some parameters, or a module."""
    for each in parameters_of(target):
        each.grad = None
