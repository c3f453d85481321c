"""Functions that read from flows and from torch's state during a recording."""

from __future__ import annotations

import re
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from flodl.errors import FlowError
from flodl.tracing.callsite import is_torch_frame, is_user_frame, site_of
from flodl.tracing.flow_value import flow_node, flow_value, is_flow
from flodl.tracing.pytrees import map_leaves

if TYPE_CHECKING:
    from types import FrameType

    from flodl.ir.graph import NodeKind, Site


def input_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
    """Return the values of the flows among some arguments, by node."""
    known: dict[int, Any] = {}

    def note(leaf: Any) -> Any:
        if is_flow(leaf):
            known[flow_node(leaf)] = flow_value(leaf)
        return leaf

    for arg in (*args, *kwargs.values()):
        map_leaves(arg, note)
    return known


def instruction_of(frame: FrameType | None) -> tuple[int, int]:
    """Return the key of a running instruction: its frame and its offset."""
    return (id(frame), frame.f_lasti if frame is not None else -1)


def kind_name(kind: NodeKind, target: str) -> str:
    """Return the word by which unnamed nodes are counted."""
    text = target.rpartition(".")[2].strip("_") or kind
    return text if text.isidentifier() else kind


def grad_modes() -> tuple[bool, ...]:
    """Return the gradient, inference and autocast modes that are on."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
    )


def without_place(target: str) -> str:
    """Return the operator that an in-place one is for numbers and text: `n += 1` makes a new number."""
    if not target.startswith("i_"):
        return target
    name = target.removeprefix("i_")
    return f"{name}_" if name in ("and", "or") else name


def tensor_question(site: Site, what: str) -> str:
    """Return the message for a question about a tensor's value."""
    return (
        f"{site}: the flow asks for {what} of a tensor, which only a run can know; choose between values "
        "with torch.where, between branches with switch, or keep the part as a callable: "
        "x.through(function). x.through(bool) or x.through(int) asks at every call and goes on by the answer"
    )


def error_of_proxy(error: Exception) -> FlowError | None:
    """Return the error for a proxy that reached C code of torch, which takes tensors alone; else None.

    `Reverse.apply(x)` of an `autograd.Function`, say, and `checkpoint(self.layer, x)` hand `x` to
    C without asking `__torch_function__`, and pybind11 answers with a list of signatures.
    """
    if not isinstance(error, TypeError) or re.search(r"\bFlow\b", str(error)) is None:
        return None
    passed = list(traceback.walk_tb(error.__traceback__))
    users = [index for index, (frame, _) in enumerate(passed) if is_user_frame(frame)]
    if not users or not is_torch_frame(passed[-1][0]):
        return None
    frame, line = passed[users[-1]]
    return FlowError(
        f"{replace(site_of(frame), line=line)}: a function of torch that is called here takes tensors alone, "
        "and `flow` has proxies; run the call as one step: x.through(function) or call(function, x)"
    )
