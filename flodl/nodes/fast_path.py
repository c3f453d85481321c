"""`run(module, x)` computes `module(x)` by the cheapest equivalent route.

A call of `nn.Linear` spends most of its time finding hooks, `forward`, `weight` and `bias`.  `run` reads
the live hooks and parameters straight from the module's dictionaries and calls the kernel.  Anything
unusual - a hook, an overridden `forward`, a subclass, a parametrization, a tensor subclass - takes the
ordinary route, so hooks registered and weights swapped later work as they always do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.nn.modules import module as torch_module

if TYPE_CHECKING:
    from collections.abc import Callable

    _Fast: TypeAlias = Callable[[nn.Module, dict[str, Any], torch.Tensor], Any]

_linear = torch._C._nn.linear  # F.linear is this function under a longer lookup
_Tensor = torch.Tensor

# Every function below gets the module, its `__dict__` and the input, so that they share one table.
# A weight that is no parameter any more - one that is computed again for each call - is the module's matter.


def _run_linear(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    parameters = d["_parameters"]
    try:
        weight, bias = parameters["weight"], parameters["bias"]
    except KeyError:
        return module(x)
    return _linear(x, weight, bias)


def _run_conv(function: Callable[..., Any]) -> _Fast:
    def forward(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
        parameters = d["_parameters"]
        try:
            weight, bias = parameters["weight"], parameters["bias"]
        except KeyError:
            return module(x)
        return function(
            x, weight, bias, d["stride"], d["padding"], d["dilation"], d["groups"]
        )  # fmt: skip

    return forward


def _run_layer_norm(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    parameters = d["_parameters"]
    try:
        weight, bias = parameters["weight"], parameters["bias"]
    except KeyError:
        return module(x)
    return F.layer_norm(x, d["normalized_shape"], weight, bias, d["eps"])


def _run_batch_norm(dims: tuple[int, ...]) -> _Fast:
    def forward(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
        momentum = d["momentum"]
        if momentum is None or not d["track_running_stats"] or x.dim() not in dims:
            return module(x)
        parameters, buffers = d["_parameters"], d["_buffers"]
        training = d["training"]
        try:
            weight, bias = parameters["weight"], parameters["bias"]
            mean, variance = buffers["running_mean"], buffers["running_var"]
            count = buffers["num_batches_tracked"]
        except KeyError:
            return module(x)
        if training and count is not None:
            count.add_(1)
        return F.batch_norm(x, mean, variance, weight, bias, training, momentum, d["eps"])

    return forward


def _run_embedding(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    try:
        weight = d["_parameters"]["weight"]
    except KeyError:
        return module(x)
    return F.embedding(
        x, weight, d["padding_idx"], d["max_norm"], d["norm_type"],
        d["scale_grad_by_freq"], d["sparse"],
    )  # fmt: skip


def _run_dropout(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return F.dropout(x, d["p"], d["training"], d["inplace"])


def _run_relu(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return torch.relu_(x) if d["inplace"] else torch.relu(x)


def _run_gelu(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return F.gelu(x, approximate=d["approximate"])


def _run_silu(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return F.silu(x, d["inplace"])


def _run_tanh(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return torch.tanh(x)


def _run_sigmoid(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return torch.sigmoid(x)


def _run_identity(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return x


def _run_flatten(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    return x.flatten(d["start_dim"], d["end_dim"])


def _run_max_pool2d(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    if d["return_indices"]:
        return module(x)
    return torch.max_pool2d(
        x, d["kernel_size"], d["stride"], d["padding"], d["dilation"], d["ceil_mode"]
    )


def _run_sequential(module: nn.Module, d: dict[str, Any], x: torch.Tensor) -> Any:
    for child in d["_modules"].values():
        x = run(child, x)
    return x


# Per class: the route, the forward that it stands for, and the function of `F` which that one calls. A
# program that replaces either (`nn.Linear.forward = ...`, `F.linear = ...`) gets what it has put there.
_Route: TypeAlias = "tuple[_Fast, Callable[..., Any], str, Callable[..., Any]]"


def _route(kind: type[nn.Module], fast: _Fast, name: str = "linear") -> tuple[type, _Route]:
    return kind, (fast, kind.forward, name, vars(F)[name])


_F: dict[str, Any] = vars(F)
_FAST: dict[type, _Route] = dict((
    _route(nn.Linear, _run_linear),
    _route(nn.LayerNorm, _run_layer_norm, "layer_norm"),
    _route(nn.BatchNorm1d, _run_batch_norm((2, 3)), "batch_norm"),
    _route(nn.BatchNorm2d, _run_batch_norm((4,)), "batch_norm"),
    _route(nn.BatchNorm3d, _run_batch_norm((5,)), "batch_norm"),
    _route(nn.Embedding, _run_embedding, "embedding"),
    _route(nn.Dropout, _run_dropout, "dropout"),
    _route(nn.ReLU, _run_relu, "relu"),
    _route(nn.GELU, _run_gelu, "gelu"),
    _route(nn.SiLU, _run_silu, "silu"),
    _route(nn.Tanh, _run_tanh),
    _route(nn.Sigmoid, _run_sigmoid),
    _route(nn.Identity, _run_identity),
    _route(nn.Flatten, _run_flatten),
    _route(nn.MaxPool2d, _run_max_pool2d, "max_pool2d"),
    _route(nn.Sequential, _run_sequential),
))  # fmt: skip
_CONVOLUTIONS: dict[type, _Route] = dict((
    _route(nn.Conv1d, _run_conv(torch.conv1d), "conv1d"),
    _route(nn.Conv2d, _run_conv(torch.conv2d), "conv2d"),
    _route(nn.Conv3d, _run_conv(torch.conv3d), "conv3d"),
))  # fmt: skip


def run(module: nn.Module, x: Any) -> Any:
    """Return `module(x)`.

    Args:
        module: any module.
        x: its only argument; other than exact `torch.Tensor`s take the ordinary route.
    """
    kind = module.__class__
    route = _FAST.get(kind)
    if route is None:
        route = _CONVOLUTIONS.get(kind)
        if route is None or module.__dict__["padding_mode"] != "zeros":
            return module(x)
    fast, forward, name, function = route
    d = module.__dict__
    if (
        d["_forward_hooks"]
        or d["_forward_pre_hooks"]
        or d["_backward_hooks"]
        or d["_backward_pre_hooks"]
        or "forward" in d
        or x.__class__ is not _Tensor
        or kind.forward is not forward
        or _F[name] is not function
    ):
        return module(x)
    return fast(module, d, x)


def run_plainly(module: nn.Module, x: Any) -> Any:
    """Return `module(x)` by calling it, as tracing compilers and global hooks need."""
    return module(x)


def is_traced_by_tool() -> bool:
    """Return True under Dynamo, `torch.export`, `torch.jit.trace` or `torch.fx.symbolic_trace`."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or is_fx_symbolic_tracing()
    )


def must_run_plainly() -> bool:
    """Return True if something watches module calls themselves: a tracer, or a hook on every module."""
    return bool(
        is_traced_by_tool()
        or torch_module._global_forward_hooks  # torch has no public reader for these
        or torch_module._global_forward_pre_hooks
        or torch_module._global_backward_hooks
        or torch_module._global_backward_pre_hooks
    )
