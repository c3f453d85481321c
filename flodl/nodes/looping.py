"""Loops that a condition ends.  A positive condition means halt, for `while` and `until` alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from flodl.errors import GraphError
from flodl.nodes.loop_body import LoopBody, start_traces, traced_turn
from flodl.nodes.stages import apply_stage, apply_with

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["while", "until"]


def loop_for(x: Any, body: Any, n: int, refs: Mapping[str, Any]) -> Any:
    """Return the result of applying the body `n` times."""
    _reset(body)
    for turn in range(n):
        x = _turn(body, x, refs, turn)
    return x


def loop_halting(
    x: Any, body: Any, halt: Any, limit: int, kind: Kind, per_sample: bool, refs: Mapping[str, Any]
) -> Any:
    """Apply the body until the halt condition is positive, or `limit` times.

    Args:
        x: the stream, `[B, ...]`.
        body: a stage whose output has the shape of its input.
        halt: a stage whose output is positive where the loop should stop.
        limit: most turns.
        kind: `while` checks before each turn (0 to `limit` turns), `until` after it (1 to `limit`).
        per_sample: each sample stops on its own (`halt` gives `[B]` or `[B, 1]` values); a stopped
            sample keeps its value.  Otherwise the first element decides for the batch.
        refs: tagged values for the body.
    """
    _reset(body)
    if per_sample:
        return _per_sample(x, body, halt, limit, kind, refs)
    for turn in range(limit):
        if kind == "while" and _halts(halt, x):
            break
        x = _turn(body, x, refs, turn)
        if kind == "until" and turn + 1 < limit and _halts(halt, x):
            break
    return x


def _halts(halt: Any, x: Any) -> bool:
    first: torch.Tensor = apply_stage(halt, x).reshape(-1)[0]
    # Where only shapes are computed, there is no value to decide by.
    return not first.is_meta and bool(first > 0)


def _per_sample(
    x: torch.Tensor, body: Any, halt: Any, limit: int, kind: Kind, refs: Mapping[str, Any]
) -> torch.Tensor:
    """Mask stopped samples; nothing here depends on the data but values, so it compiles and exports."""
    running = torch.ones(x.size(0), dtype=torch.bool, device=x.device)
    for turn in range(limit):
        if kind == "while":
            running = running & ~_stops(halt, x)
        after = _turn(body, x, refs, turn)
        x = torch.where(running.reshape(-1, *(1,) * (x.dim() - 1)), after, x)
        if kind == "until":
            running = running & ~_stops(halt, x)
    return x


def _stops(halt: Any, x: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = apply_stage(halt, x)
    if values.numel() != x.size(0):
        message = (
            f"a halt per sample gave shape {list(values.shape)} for a batch of {x.size(0)}; give one value "
            "per sample"
        )
        raise GraphError(message)
    return values.reshape(-1) > 0


def _turn(body: Any, x: Any, refs: Mapping[str, Any], turn: int) -> Any:
    try:
        if isinstance(body, LoopBody):
            return traced_turn(body, x, refs)
        return apply_with(body, x, refs)
    except Exception as error:
        error.add_note(f"in loop turn {turn + 1}")
        raise


def _reset(body: Any) -> None:
    """Reset the memory of a body that has one."""
    if isinstance(body, LoopBody):
        start_traces(body)
    if isinstance(body, torch.nn.Module) and "reset" in dir(type(body)):
        body.reset()  # type: ignore[operator]
