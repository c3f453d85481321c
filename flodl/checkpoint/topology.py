"""The architecture of a live module, as the plain data that is hashed, stored and compared."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flodl.checkpoint.tensors import CODES
from flodl.ir.graph import GraphSpec
from flodl.ir.hashing import ModuleForm, TensorForm, Topology, flow_lines

if TYPE_CHECKING:
    from torch import Tensor


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module inside the wrappers of `torch.compile`, DDP and DataParallel."""
    while True:
        if isinstance(module, DistributedDataParallel | DataParallel):
            module = module.module
        elif "_orig_mod" in module._modules:
            inner = module._modules["_orig_mod"]
            if inner is None:
                return module
            module = inner
        else:
            return module


def topology_of(module: nn.Module) -> Topology:
    """Return the architecture of a module and everything below it."""
    places = dict(unwrapped(module).named_modules(remove_duplicate=False))
    numbers = {path: number for number, path in enumerate(places)}
    return Topology(
        modules=tuple(
            ModuleForm(
                path=path,
                kind=type(each).__name__,
                settings=_settings(each),
                tensors=_tensors(each),
                flow=_flow(each, path, numbers),
            )
            for path, each in places.items()
        )
    )


def structural_hash(module: nn.Module) -> str:
    """Return 64 hexadecimal digits that change when the architecture does, and not when names do.

    Example:
        >>> structural_hash(nn.Linear(2, 3)) == structural_hash(nn.Linear(2, 3))
        True
        >>> structural_hash(nn.Dropout(0.1)) == structural_hash(nn.Dropout(0.2))
        False
    """
    return topology_of(module).hash()


def _settings(module: nn.Module) -> str:
    return " ".join(module.extra_repr().split())


def _tensors(module: nn.Module) -> tuple[TensorForm, ...]:
    own: dict[str, Tensor] = {
        **dict(module.named_parameters(recurse=False, remove_duplicate=False)),
        **dict(module.named_buffers(recurse=False, remove_duplicate=False)),
    }
    return tuple(
        TensorForm(
            name=name, dtype=CODES.get(each.dtype, str(each.dtype)), shape=tuple(each.shape)
        )
        for name, each in own.items()
        if name not in module._non_persistent_buffers_set and not _unmaterialised(each)
    )


def _unmaterialised(tensor: Tensor) -> bool:
    return isinstance(tensor, UninitializedBuffer | UninitializedParameter)


def _flow(module: nn.Module, path: str, numbers: dict[str, int]) -> tuple[str, ...]:
    """Return the wiring, if the module has one that holds for every mode and every input.

    A plan that was recorded for one mode or one size is a property of that call, not of the architecture.
    """
    spec = _spec(module)
    if spec is None or spec.guards or spec.training is not None:
        return ()
    dot = f"{path}." if path else ""
    own = numbers[path]
    inside = {
        each.removeprefix(dot): number - own
        for each, number in numbers.items()
        if each.startswith(dot)
    }
    return flow_lines(spec, inside)


def _spec(module: nn.Module) -> GraphSpec | None:
    # Looked up by name: graphs live in a room that this one must not know.
    recorded = inspect.getattr_static(type(module), "_flodl_programs", None)
    programs = recorded(module) if callable(recorded) else ()
    # A flow may be described at its first call only, which need not have happened.
    spec = programs[-1].spec if programs else None
    return spec if isinstance(spec, GraphSpec) else None
