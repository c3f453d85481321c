"""The seven optimizers: torch's own, with rates to set, groups to build, and state that saves."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, final

import torch
from torch import Tensor, nn, optim

from flodl.errors import TrainingError
from flodl.nn.stateful import StatefulMixin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Params: TypeAlias = "nn.Module | Tensor | Iterable[Any]"


def _listed(params: Params) -> list[Any]:
    """Return parameters, groups of them, or (name, parameter) pairs as a list."""
    if isinstance(params, nn.Module):
        return list(params.parameters())
    return [params] if isinstance(params, Tensor) else list(params)


def _tensors(entries: Iterable[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for entry in entries:
        if isinstance(entry, dict):
            found += _tensors(_listed(entry["params"]))
        else:
            found.append(entry[1] if isinstance(entry, tuple) else entry)
    return found


def _fused(entries: list[Any], wanted: bool | None) -> bool | None:
    """Choose the fused kernel where every parameter can use it; None leaves torch its own choice."""
    if wanted is not None:
        return wanted
    tensors = _tensors(entries)
    fits = all(each.is_cuda and each.is_floating_point() for each in tensors)
    return True if tensors and fits else None


class OptimizerMixin(StatefulMixin, optim.Optimizer):
    """Methods of every optimizer beyond torch's: rates by group, and state in a checkpoint file."""

    def lr(self, group: int = 0) -> float:
        """Return the learning rate of a group."""
        return float(self.param_groups[group]["lr"])

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of all groups."""
        for index in range(len(self.param_groups)):
            self.set_group_lr(index, lr)

    def set_group_lr(self, group: int, lr: float) -> None:
        """Set the learning rate of one group.

        Raises:
            IndexError: there is no such group.
        """
        if not 0 <= group < len(self.param_groups):
            raise IndexError(
                f"there is no group {group}; groups are 0 to {len(self.param_groups) - 1}"
            )
        held = self.param_groups[group]["lr"]
        if isinstance(held, Tensor):
            # A captured step reads the rate from this very tensor.
            held.fill_(lr)
        else:
            self.param_groups[group]["lr"] = lr

    def scale_lr(self, factor: float) -> None:
        """Multiply the learning rate of every group."""
        for index in range(len(self.param_groups)):
            self.set_group_lr(index, self.lr(index) * factor)

    @classmethod
    def with_groups(cls, **defaults: Any) -> GroupBuilder[Self]:
        """Begin an optimizer of several parameter groups; `defaults` hold for all of them.

        Example:
            >>> body, head = nn.Linear(4, 4), nn.Linear(4, 2)
            >>> groups = Adam.with_groups().group(body, lr=1e-4).group(head, lr=1e-3)
            >>> optimizer = groups.build()
            >>> optimizer.lr(0), optimizer.lr(1)
            (0.0001, 0.001)
        """
        return GroupBuilder(cls, defaults)


Built = TypeVar("Built", bound=OptimizerMixin)


@final
class GroupBuilder(Generic[Built]):
    """Collects parameter groups, each with its own rate and settings, until `build()`."""

    def __init__(self, kind: Callable[..., Built], defaults: dict[str, Any]) -> None:
        self._kind = kind
        self._defaults = defaults
        self._groups: list[dict[str, Any]] = []

    def group(self, params: Params, lr: float, **overrides: Any) -> Self:
        """Add a group."""
        self._groups.append({"params": _listed(params), "lr": lr, **overrides})
        return self

    def build(self) -> Built:
        """Return the optimizer.

        Raises:
            ValueError: no group was added, or a group has no parameters.
        """
        if not self._groups:
            raise ValueError("with_groups() needs at least one .group(params, lr) before .build()")
        for index, group in enumerate(self._groups):
            if not group["params"]:
                raise ValueError(f"group {index} has no parameters")
        groups = [dict(group) for group in self._groups]
        return self._kind(groups, lr=self._groups[0]["lr"], **self._defaults)


@final
class SGD(OptimizerMixin, optim.SGD):
    """Stochastic gradient descent: `SGD(params, lr, momentum)`."""

    def __init__(
        self, params: Params, lr: float | Tensor = 1e-2, momentum: float = 0.0, **settings: Any
    ) -> None:
        super().__init__(_listed(params), lr=lr, momentum=momentum, **settings)

    @classmethod
    def with_groups(cls, momentum: float = 0.0, **defaults: Any) -> GroupBuilder[Self]:
        """Begin an optimizer of several parameter groups: `SGD.with_groups(0.9).group(body, lr=0.1)`."""
        return GroupBuilder(cls, {"momentum": momentum, **defaults})


@final
class Adam(OptimizerMixin, optim.Adam):
    """Adam: `Adam(params, lr)`; fused on CUDA."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        *,
        fused: bool | None = None,
        **settings: Any,
    ) -> None:
        listed = _listed(params)
        super().__init__(listed, lr=lr, fused=_fused(listed, fused), **settings)


@final
class AdamW(OptimizerMixin, optim.AdamW):
    """Adam with decoupled weight decay: `AdamW(params, lr, weight_decay)`; fused on CUDA."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 1e-2,
        *,
        fused: bool | None = None,
        **settings: Any,
    ) -> None:
        listed = _listed(params)
        super().__init__(
            listed, lr=lr, weight_decay=weight_decay, fused=_fused(listed, fused), **settings
        )

    @classmethod
    def with_groups(cls, weight_decay: float = 1e-2, **defaults: Any) -> GroupBuilder[Self]:
        """Begin an optimizer of several parameter groups: `AdamW.with_groups(0.1).group(body, lr=1e-4)`."""
        return GroupBuilder(cls, {"weight_decay": weight_decay, **defaults})


@final
class RMSprop(OptimizerMixin, optim.RMSprop):
    """RMSprop: `RMSprop(params, lr)`, alpha 0.99."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, **settings: Any) -> None:
        super().__init__(_listed(params), lr=lr, **settings)


@final
class Adagrad(OptimizerMixin, optim.Adagrad):
    """Adagrad: `Adagrad(params, lr)`."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, **settings: Any) -> None:
        super().__init__(_listed(params), lr=lr, **settings)


@final
class RAdam(OptimizerMixin, optim.RAdam):
    """Rectified Adam: `RAdam(params, lr)`, with torch's rectification."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, **settings: Any) -> None:
        super().__init__(_listed(params), lr=lr, **settings)


@final
class NAdam(OptimizerMixin, optim.NAdam):
    """Adam with Nesterov momentum: `NAdam(params, lr)`, with torch's momentum schedule."""

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, **settings: Any) -> None:
        super().__init__(_listed(params), lr=lr, **settings)


def check_trains(optimizer: torch.optim.Optimizer, module: nn.Module) -> tuple[str, ...]:
    """Return the names of trainable parameters that an optimizer does not hold.

    They are missing when the optimizer was made before the module got new parameters, for example
    before a head was replaced.
    """
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    return tuple(
        name
        for name, each in module.named_parameters()
        if each.requires_grad and id(each) not in held
    )


def require_trains(optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
    """Refuse an optimizer of other parameters than the module's.

    A module whose parameters are all frozen trains nothing by choice: the optimizer may hold an input.

    Raises:
        TrainingError: the module has trainable parameters, and the optimizer holds none of them.

    Warns:
        UserWarning: the optimizer holds some of the trainable parameters.
    """
    missing = check_trains(optimizer, module)
    if not missing:
        return
    shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    own = {id(each) for each in module.parameters()}
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    kind, name = type(optimizer).__name__, type(module).__name__
    if held.isdisjoint(own):
        raise TrainingError(
            f"this {kind} holds no parameter of the {name}, so training would change nothing; make the "
            f"optimizer from the parameters of the model that is trained ({shown})"
        )
    warnings.warn(
        f"this {kind} does not hold {len(missing)} trainable parameters of the {name} ({shown}), so they do "
        "not train; make the optimizer after the last change of the model, or freeze() them",
        UserWarning,
        stacklevel=3,
    )


def optimizer_of(factory: Any, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of a factory that takes parameters; an optimizer is its own factory."""
    if isinstance(factory, torch.optim.Optimizer):
        return factory
    if not callable(factory):
        raise TrainingError(
            f"{type(factory).__name__} makes no optimizer: give a function of the parameters"
        )
    made = factory(list(model.parameters()))
    if not isinstance(made, torch.optim.Optimizer):
        raise TrainingError(
            f"the optimizer factory returned {type(made).__name__}, not an optimizer"
        )
    return made
