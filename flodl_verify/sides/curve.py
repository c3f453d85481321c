"""Training curve of one whole script over some optimizer steps."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from flodl_verify.protocol import Request
from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, time_limit
from flodl_verify.sandbox.containment import StopRunError, stop_after_steps
from flodl_verify.sandbox.isolated_import import locate
from flodl_verify.sandbox.main_module import run_main
from flodl_verify.sandbox.memory import tensor_bytes
from flodl_verify.stubs.install import STUBS
from flodl_verify.values.raw import dense_copy

NUM_STEPS = 12
# Weights are looked at after the first steps and the last ones of a big model only.
MAX_DIGEST_BYTES = 64 * 1024 * 1024


@final
@dataclass(slots=True)
class Curve:
    """The losses (bits and numbers) of the backward passes, and digests of the trained weights.

    `end` says how the run ended: `steps`, `time`, `finished` or `error`.
    """

    losses: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    steps: int = 0
    end: str = "finished"
    error: str = ""
    line: int | None = None
    stubs: str = ""


def record_curve(request: Request, text: bytes, seconds: float) -> Curve:
    """Run a script, which is `ported` of the request, in the place of `original`."""
    curve = Curve()
    STUBS.install(request.original)
    script = request.ported
    place = locate(script)
    sys.path[:0] = [str(place.root), *(str(item) for item in request.search_path)]
    with time_limit_of(curve, seconds), noting_curve(curve):
        end_with(curve, run_main(script, place.name, request.original, text))
    return named_stubs(curve)


@contextlib.contextmanager
def time_limit_of(curve: Curve, seconds: float) -> Iterator[None]:
    """Stop the block after so many seconds or enough steps, and note which it was."""
    try:
        with time_limit(seconds), stop_after_steps(NUM_STEPS):
            yield
    except StopRunError:
        curve.end = "steps"
    except OutOfTimeError:
        curve.end = "time"


@contextlib.contextmanager
def noting_curve(curve: Curve) -> Iterator[None]:
    """Note the losses and weights of the block."""
    with _losses(curve), _weights(curve):
        yield


def end_with(curve: Curve, failure: Failure | None) -> None:
    """Note what a script ended with."""
    if failure is not None and failure.text not in {"SystemExit", "SystemExit: 0"}:
        curve.end, curve.error, curve.line = "error", failure.text, failure.line


def named_stubs(curve: Curve) -> Curve:
    """Note what was not the real thing."""
    curve.stubs = ", ".join(STUBS.used)
    return curve


@contextlib.contextmanager
def _losses(curve: Curve) -> Iterator[None]:
    """Note what every backward pass of the block starts from."""
    original = torch.autograd.backward
    noted: list[object] = []

    def noting(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        roots = tensors if isinstance(tensors, tuple | list) else (tensors,)
        # Under a mode, such as that of a stand-in for a GPU, torch comes here again for the same pass.
        if noted and roots[0] is noted[-1]:
            return original(tensors, *args, **kwargs)
        curve.losses.append(_digest(roots))
        first = roots[0].detach()
        curve.values.append(float(first.float().mean()) if first.numel() else 0.0)
        noted.append(roots[0])
        try:
            return original(tensors, *args, **kwargs)
        finally:
            noted.pop()

    torch.autograd.backward = noting
    try:
        yield
    finally:
        torch.autograd.backward = original


@contextlib.contextmanager
def _weights(curve: Curve) -> Iterator[None]:
    """Note the weights after every optimizer step of the block."""

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        curve.steps += 1
        found = [item for group in optimizer.param_groups for item in group["params"]]
        size = sum(item.numel() * item.element_size() for item in found)
        if curve.steps <= 2 or size <= MAX_DIGEST_BYTES or curve.steps == NUM_STEPS:
            curve.weights.append(_digest(found))
        else:
            curve.weights.append("")

    handle = register_optimizer_step_post_hook(note)
    try:
        yield
    finally:
        handle.remove()


def _digest(tensors: Any) -> str:
    state = hashlib.blake2b(digest_size=12)
    for item in tensors:
        data = dense_copy(item.detach()).contiguous().reshape(-1)
        state.update(struct.pack("q", data.numel()) + str(item.dtype).encode())
        if data.numel() and data.device.type == "cpu":
            state.update(tensor_bytes(data))
    return state.hexdigest()
