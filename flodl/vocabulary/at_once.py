"""Stages run on plain values: tensors under Dynamo, `torch.fx` proxies, traced tensors.

`run_stage` of `flodl.vocabulary.stages` records a step; `run_at_once` does it, with the same chains and the
same treatment of classes:

    run_at_once((self.conv, torch.relu), x, (), {})     # torch.relu(self.conv(x))
"""

from __future__ import annotations

from types import MethodDescriptorType
from typing import Any

import torch
from torch import nn
from torch.fx import Proxy

from flodl.vocabulary.stages import instantiate, is_module_list


def is_value(x: object) -> bool:
    """Return True for a tensor or a proxy of `torch.fx`, which is callable and still no stage."""
    return isinstance(x, (torch.Tensor, Proxy))


def run_at_once(stage: Any, first: Any, extra: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return `stage(first, *extra, **named)`; the extra arguments go to the first stage of a chain.

    Raises:
        FlowError: the stage is a module class that needs arguments.
    """
    if type(stage) in (tuple, list) or is_module_list(stage):
        value = first
        for position, each in enumerate(stage):
            rest: tuple[tuple[Any, ...], dict[str, Any]] = (
                (extra, named) if position == 0 else ((), {})
            )
            value = run_at_once(each, value, *rest)
        return value
    if isinstance(stage, type):
        if issubclass(stage, nn.Module) and _has_value((first, *extra, *named.values())):
            return instantiate(stage)(first, *extra, **named)
    elif _is_method_of_tensors(stage, first):
        return getattr(first, stage.__name__)(*extra, **named)
    return stage(first, *extra, **named)


def _has_value(values: tuple[Any, ...]) -> bool:
    return any(is_value(each) for each in values)


def _is_method_of_tensors(stage: Any, first: Any) -> bool:
    """Return True if `torch.Tensor.item` or the like is given a number, array or proxy, which has it, too."""
    return (
        not isinstance(first, torch.Tensor)
        and isinstance(stage, MethodDescriptorType)
        and getattr(torch.Tensor, stage.__name__, None) is stage
    )
