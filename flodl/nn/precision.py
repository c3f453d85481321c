"""Mixed precision: autocast, and a gradient scaler that unscales before it clips."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

import torch
from torch import Tensor, optim

from flodl.nn.parameters import Parameters, clip_grad_norm, parameters_of
from flodl.nn.stateful import StatefulMixin

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


def _default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@final
class AutocastGuard(torch.autocast):
    """A scope of mixed precision: `with AutocastGuard(torch.bfloat16):`.

    In Rust a guard works while its variable lives. In Python it works inside `with` only; one that ends
    without having been entered warns.

    Warns:
        RuntimeWarning: the guard was kept in a variable and never entered.
    """

    _used = True  # until it is made: one whose construction failed was not forgotten

    def __init__(
        self,
        dtype: torch.dtype = torch.bfloat16,
        device_type: str | None = None,
        *,
        enabled: bool = True,
    ) -> None:
        super().__init__(device_type or _default_device(), dtype=dtype, enabled=enabled)
        self._used = False

    def __enter__(self) -> Any:
        self._used = True
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as one that runs in mixed precision."""
        self._used = True
        decorated: Callable[..., Any] = super().__call__(func)  # type: ignore[no-untyped-call]
        return decorated

    def __del__(self) -> None:
        if not self._used:
            warnings.warn(
                "an AutocastGuard was never entered, so full precision was used; write "
                "`with AutocastGuard(...):`",
                RuntimeWarning,
                stacklevel=2,
            )


@overload
def autocast(
    dtype: torch.dtype = ...,
    fn: None = None,
    *,
    device_type: str | None = ...,
    enabled: bool = ...,
) -> AutocastGuard: ...
@overload
def autocast(
    dtype: torch.dtype,
    fn: Callable[[], Result],
    *,
    device_type: str | None = ...,
    enabled: bool = ...,
) -> Result: ...
def autocast(
    dtype: torch.dtype = torch.bfloat16,
    fn: Callable[[], Result] | None = None,
    *,
    device_type: str | None = None,
    enabled: bool = True,
) -> Result | AutocastGuard:
    """Run `fn` under autocast and return its result; without `fn`, return the scope to use with `with`.

    Example:
        >>> layer = torch.nn.Linear(2, 2)
        >>> autocast(torch.bfloat16, lambda: layer(torch.ones(1, 2)), device_type="cpu").dtype
        torch.bfloat16
    """
    guard = AutocastGuard(dtype, device_type, enabled=enabled)
    if fn is None:
        return guard
    with guard:
        return fn()


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether autocast is on for a kind of device, or for any."""
    kinds = (device_type,) if device_type else ("cuda", "cpu")
    return any(torch.is_autocast_enabled(kind) for kind in kinds)


@final
class _Calling(optim.Optimizer):
    """Some parameters with a function in place of an update rule."""

    def __init__(self, parameters: list[Tensor], fn: Callable[[], Any]) -> None:
        super().__init__(parameters, {})
        self._fn = fn

    def step(self, closure: Any = None) -> Any:
        """Call the function."""
        del closure
        return self._fn()


@final
class GradScaler(StatefulMixin, torch.amp.GradScaler):
    """Scales losses so that half-precision gradients do not vanish.

    The order that works is unscale, clip, step; `step(optimizer, max_norm=...)` keeps it:

    Example:
        >>> from flodl.nn.optimizers import SGD
        >>> layer = torch.nn.Linear(2, 1); optimizer = SGD(layer, 0.1)
        >>> scaler = GradScaler(device="cpu")
        >>> scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
        >>> scaler.step(optimizer, max_norm=1.0)
        True
        >>> scaler.update()
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        *,
        device: str | None = None,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            device or _default_device(),
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
        # torch keys its bookkeeping by id(optimizer): the optimizers in here stay alive until `update`.
        self._unscaled: dict[int, optim.Optimizer] = {}

    def unscale_(self, optimizer: optim.Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, once per step."""
        super().unscale_(optimizer)
        self._unscaled[id(optimizer)] = optimizer

    def step(
        self,
        target: optim.Optimizer | Parameters,
        fn: Callable[[], Any] | None = None,
        *,
        max_norm: float | None = None,
    ) -> bool:
        """Unscale, optionally clip, and step unless a gradient is infinite or not a number.

        Args:
            target: an optimizer; or parameters, together with `fn`.
            fn: the function that updates bare parameters.
            max_norm: clip the total norm of the unscaled gradients to this.

        Returns:
            Whether the step was taken.

        Raises:
            TypeError: parameters were given without a function, or an optimizer with one.
        """
        optimizer = self._optimizer(target, fn)
        held = [each for group in optimizer.param_groups for each in group["params"]]
        if not self.is_enabled():
            if max_norm is not None:
                clip_grad_norm(held, max_norm)
            optimizer.step()
            return True
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        found = self._found_inf_per_device(optimizer)
        skipped = any(bool(each.item()) for each in found.values())
        if max_norm is not None and not skipped:
            clip_grad_norm(held, max_norm)
        super().step(optimizer)
        return not skipped

    @staticmethod
    def _optimizer(
        target: optim.Optimizer | Parameters, fn: Callable[[], Any] | None
    ) -> optim.Optimizer:
        if isinstance(target, optim.Optimizer):
            if fn is not None:
                raise TypeError(
                    "step(optimizer) calls optimizer.step itself; leave the function away"
                )
            return target
        if fn is None:
            raise TypeError("step(parameters, fn) needs the function that updates the parameters")
        return _Calling(parameters_of(target), fn)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Grow or back off the scale; call it once after the steps of an iteration."""
        super().update(new_scale)
        self._unscaled.clear()


def amp_step(
    scaler: GradScaler, loss: Tensor, optimizer: optim.Optimizer, *, max_norm: float | None = None
) -> bool:
    """Do what follows the loss: scaled backward, unscale, clip, step, update; return whether it stepped."""
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(scaler.scale(loss))
    stepped = scaler.step(optimizer, max_norm=max_norm)
    scaler.update()
    return stepped
