"""Measurement of a script's own training step and of the same step with fused optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fdl_cli.porter.ir.evidence import ScriptRequest, SpeedOutcome, VerifyRequest
from fdl_cli.porter.verify.child import Limits, run_task
from flodl_verify.protocol import EQUALITIES, MEASURED_S

# A share of `--timeout`, 60 s by default: a script may load data before its first step. The measurement
# itself takes a few seconds.
SPEED_SHARE: Final = 0.2


def measure_speed(request: ScriptRequest) -> SpeedOutcome:
    """Run a script up to its first steps, and measure these as they are and with fused optimizers.

    Nothing is raised for what user code does.
    """
    limit = max(SPEED_SHARE * request.timeout_s, MEASURED_S)
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
