"""Fused optimizer updates, where torch has such a kernel and the user did not choose otherwise."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import optim

# Kind -> devices with a fused kernel.  Subclasses such as flodl's own count, unless they override `step`.
_FUSED: dict[type[optim.Optimizer], tuple[str, ...]] = {
    optim.Adam: ("cpu", "cuda"),
    optim.AdamW: ("cpu", "cuda"),
    optim.SGD: ("cpu", "cuda"),
    optim.Adagrad: ("cpu",),
}
_SWITCHES = ("foreach", "capturable", "differentiable")


def _kind(optimizer: optim.Optimizer) -> type[optim.Optimizer] | None:
    # AdamW derives from Adam: the nearest base counts.  Torch wraps `step` in every class it makes.
    for kind in type(optimizer).__mro__:
        if kind in _FUSED:
            same_update = inspect.unwrap(type(optimizer).step) is inspect.unwrap(kind.step)
            return kind if same_update else None
    return None


def _group_fits(group: dict[str, Any], devices: tuple[str, ...]) -> bool:
    if group.get("fused") is not None or any(group.get(switch) for switch in _SWITCHES):
        return bool(group.get("fused"))
    if isinstance(group["lr"], torch.Tensor) and group["lr"].device.type != "cpu":
        return False
    return all(
        each.device.type in devices
        and each.is_floating_point()
        and each.layout == torch.strided
        and not torch.is_complex(each)
        for each in group["params"]
    )


def fuse(optimizer: optim.Optimizer) -> str:
    """Switch an optimizer to its fused kernel and say what it uses now.

    The update is the same; its last bits may differ from those of the unfused one.  The state keeps its
    form, so that checkpoints go both ways.  Explicit choices (`fused=False`, `foreach=True`) stay.

    Example:
        >>> import torch
        >>> from flodl.step.fusing import fuse
        >>> fuse(torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]))
        'fused Adam'
    """
    kind = _kind(optimizer)
    if kind is None or not all(
        _group_fits(group, _FUSED[kind]) for group in optimizer.param_groups
    ):
        return type(optimizer).__name__
    if not all(group["fused"] for group in optimizer.param_groups):
        _switch_on(optimizer)
        # A loaded state brings the switches of the optimizer that was saved.
        optimizer.register_load_state_dict_post_hook(_refuse)
    return f"fused {kind.__name__}"


def _switch_on(optimizer: optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        group["fused"] = True
        group["foreach"] = False
        for each in group["params"]:
            step = optimizer.state.get(each, {}).get("step")
            if isinstance(step, torch.Tensor):
                optimizer.state[each]["step"] = step.to(each.device, torch.float32)
    optimizer.defaults["fused"] = True
    # Gradient scalers ask this before they hand the scale to the kernel instead of waiting for the GPU.
    vars(optimizer)["_step_supports_amp_scaling"] = True


def _refuse(optimizer: optim.Optimizer) -> None:
    if not all(group["fused"] for group in optimizer.param_groups):
        for group in optimizer.param_groups:
            group["fused"] = None
        _switch_on(optimizer)
