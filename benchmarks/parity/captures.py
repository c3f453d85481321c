"""What we are measured against: torch's own captures of a model, judged like our port."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from benchmarks.parity.case import CALL_SEED, judge, seed_all


def judge_fx(case: Any) -> Any:
    """Judge `torch.fx.symbolic_trace`: one artifact for both modes."""
    import torch.fx

    def new(mode: bool) -> Any:
        model = case.new()
        return torch.fx.symbolic_trace(model.train(mode))

    # One artifact: traced as it is constructed, and switched like any module.
    return judge(case, lambda: new(True), lambda: new(True), case.make, initial=False)


def judge_export(case: Any) -> Any:
    """Judge `torch.export` with automatic dynamic shapes, captured once per mode."""

    def new(mode: bool) -> Any:
        model = case.new().train(mode)
        seed_all(CALL_SEED)
        args, kwargs = case.make(False)
        shapes = _automatic(model, args, kwargs)
        program = torch.export.export(
            model, tuple(args), kwargs, dynamic_shapes=shapes, strict=False
        )
        return _Modal(program.module())

    return judge(case, lambda: new(False), lambda: new(True), case.make, initial=False)


class _Modal(nn.Module):
    """An exported program, which knows no modes: switching is ignored."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.__dict__["program"] = program

    def train(self, mode: bool = True) -> Any:
        del mode
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.program(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        return self.program.named_parameters(*args, **kwargs)

    def parameters(self, recurse: bool = True) -> Any:
        return self.program.parameters(recurse)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
        return self.program.named_buffers(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.program.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.program.load_state_dict(*args, **kwargs)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.program.zero_grad(set_to_none)


def _automatic(model: nn.Module, args: Any, kwargs: Any) -> Any:
    bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments

    def spec(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return dict.fromkeys(range(item.dim()), torch.export.Dim.AUTO)
        return None

    return pytree.tree_map(spec, dict(bound))
