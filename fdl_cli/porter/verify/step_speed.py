"""Measurement of a script's own training step and of the same step with fused optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fdl_cli.porter.ir.evidence import ScriptRequest, SpeedOutcome, VerifyRequest
from fdl_cli.porter.verify.child import Limits, run_task
from flodl_verify.protocol import EQUALITIES, MEASURED_S

# The script runs up to its first step, which may load data; the measurement itself takes a few seconds.
SPEED_LIMIT_S: Final = 60.0


def measure_speed(request: ScriptRequest) -> SpeedOutcome:
    """Run a script up to its first steps, and measure these as they are and with fused optimizers.

    Nothing is raised for what user code does.
    """
    limit = max(min(SPEED_LIMIT_S, request.timeout_s / 3), MEASURED_S)
    task = VerifyRequest(
        original=request.original,
        ported=request.original,
        classes=(),
        examples=(),
        python=request.python,
        timeout_s=limit,
        workdir=request.workdir,
        search_path=request.search_path,
    )
    answer = run_task(task, "fast", (), None, Limits(task_s=limit, class_s=limit))
    if answer.speed is not None:
        return _outcome(answer.speed, limit)
    trouble = "time" if answer.timed_out else answer.trouble or "the measurement gave no answer"
    return SpeedOutcome(trouble=trouble, limit_s=limit)


def _outcome(told: Mapping[str, Any], limit: float) -> SpeedOutcome:
    """Return the measurement that an answer tells; its form was checked by the judge."""
    equality = told["equality"]
    return SpeedOutcome(
        own=tuple(told["own"]),
        fused=tuple(told["fused"]),
        equality=None if equality is None else EQUALITIES[EQUALITIES.index(equality)],
        difference=told["difference"],
        rounding=told["rounding"],
        steps=told["steps"],
        kernels=tuple(told["kernels"]),
        threads=told["threads"],
        stubs=told["stubs"],
        trouble=told["trouble"],
        line=told["line"],
        limit_s=limit,
    )
