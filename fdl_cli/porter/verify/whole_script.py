"""Comparison of two whole scripts: the losses and weights of their first steps under one seed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from fdl_cli.porter.ir.evidence import ScriptOutcome, ScriptRequest, VerifyRequest
from fdl_cli.porter.verify.child import Limits, run_task
from fdl_cli.porter.verify.orchestrate import CURVE_SUFFIX, recording_of
from flodl_verify.protocol import Status

SCRIPT_LIMIT_S = 60.0
# The port may take this much longer: its first calls record plans.
SLACK = 1.5
# Last bits of a fused optimizer move a loss by less within the compared steps.
LOSS_TOLERANCE = 1e-3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """The record of one run; see `flodl_verify.sides.curve`."""

    losses: tuple[str, ...]
    values: tuple[float, ...]
    weights: tuple[str, ...]
    steps: int
    end: str
    error: str
    line: int | None
    stubs: str


def prove_script(request: ScriptRequest) -> ScriptOutcome:
    """Run the original and the port, and compare their training bit by bit.

    Nothing is raised for what user code does.
    """
    started = time.monotonic()
    limit = min(SCRIPT_LIMIT_S, request.timeout_s / 3)
    known = recording_of(request.original, request.workdir).with_suffix(CURVE_SUFFIX)
    first = _read(known) if known.is_file() else None
    first = first or _run(request, request.original, request.search_path, limit)
    trouble = _no_training(first, limit)
    if first is None or trouble:
        return _outcome("not-run", trouble, first, started)
    search = (*request.ported_search_path, *request.search_path)
    second = _run(request, request.ported, search, limit * SLACK)
    difference = _difference(first, second)
    if not difference:
        words = _equal_words(first, second)
        if b"init_process_group" in request.original.read_bytes():
            words += "; both ran as one process, several were not compared"
        return _outcome("equal", words, first, started)
    if request.rounding and not _apart(first, second):
        return _outcome("close", _close_words(first, second), first, started)
    again = _run(request, request.original, request.search_path, limit)
    if _difference(first, again):
        text = "the script does not repeat itself under one seed"
        return _outcome("not-run", text, first, started)
    return _outcome("different", difference, first, started)


def _run(
    request: ScriptRequest, script: Path, search_path: tuple[Path, ...], limit: float
) -> _Curve | None:
    task = VerifyRequest(
        original=request.original,
        ported=script,
        classes=(),
        examples=(),
        python=request.python,
        timeout_s=limit,
        workdir=request.workdir,
        search_path=search_path,
        ported_sha256=request.ported_sha256 if script == request.ported else "",
    )
    answer = run_task(task, "curve", (), None, Limits(task_s=limit, class_s=limit))
    if answer.changed:
        return _died("the script was changed while it was verified")
    if answer.curve is None:
        return None if answer.timed_out or not answer.trouble else _died(answer.trouble)
    return _curve_of(answer.curve)


def _read(file: Path) -> _Curve:
    return _curve_of(json.loads(file.read_text(encoding="utf-8")))


def _curve_of(fields: Mapping[str, Any]) -> _Curve:
    """Return the curve that an answer tells; its form was checked by the judge."""
    return _Curve(
        losses=tuple(fields["losses"]),
        values=tuple(fields["values"]),
        weights=tuple(fields["weights"]),
        steps=fields["steps"],
        end=fields["end"],
        error=fields["error"],
        line=fields["line"],
        stubs=fields["stubs"],
    )


def _died(trouble: str) -> _Curve:
    return _Curve(
        losses=(),
        values=(),
        weights=(),
        steps=0,
        end="error",
        error=trouble,
        line=None,
        stubs="",
    )


def _no_training(curve: _Curve | None, limit: float) -> str:
    """Return the reason why a run of the original shows nothing, if so."""
    if curve is None or (curve.end == "time" and curve.steps == 0):
        return f"the script takes no optimizer step within {limit:.0f} s"
    if curve.steps == 0 and curve.end == "error":
        place = "" if curve.line is None else f" (line {curve.line})"
        return f"the script does not run here: {curve.error}{place}"
    if curve.steps == 0:
        return "the script takes no optimizer step"
    return ""


def _difference(first: _Curve, second: _Curve | None) -> str:
    """Return where two runs part; nothing when neither went further than both agree."""
    if second is None:
        return "the port takes no optimizer step in the time that the original needs"
    for number, pair in enumerate(zip(first.losses, second.losses, strict=False)):
        if pair[0] != pair[1]:
            before, after = first.values[number], second.values[number]
            return f"loss {number + 1} is {after:.9g}, in the original {before:.9g}"
    for number, pair in enumerate(zip(first.weights, second.weights, strict=False)):
        if pair[0] != pair[1]:
            return f"the weights differ after optimizer step {number + 1}"
    if second.end == "error" and first.end != "error":
        place = "" if second.line is None else f" (line {second.line})"
        return f"the port raises {second.error}{place}"
    if "time" not in {first.end, second.end} and (first.steps, len(first.losses)) != (
        second.steps,
        len(second.losses),
    ):
        return f"the port takes {second.steps} optimizer steps, the original {first.steps}"
    if second.steps == 0:
        return "the port takes no optimizer step in the time that the original needs"
    return ""


def _apart(first: _Curve, second: _Curve | None) -> bool:
    """Return True if two runs differ by more than last bits that grow over some steps."""
    if second is None or second.steps == 0 or (second.end == "error" and first.end != "error"):
        return True
    if "time" not in {first.end, second.end} and first.steps != second.steps:
        return True
    return not _largest(first, second) <= LOSS_TOLERANCE


def _largest(first: _Curve, second: _Curve) -> float:
    """Return the largest difference of two losses, relative to the largest loss."""
    top = max((abs(value) for value in first.values), default=0.0)
    pairs = zip(first.values, second.values, strict=False)
    found = [abs(one - other) / top if top else abs(one - other) for one, other in pairs]
    # Not the built-in `max` over all: it may pass over NaN.
    return math.inf if any(math.isnan(each) for each in found) else max(found, default=0.0)


def _close_words(first: _Curve, second: _Curve | None) -> str:
    assert second is not None
    steps = min(first.steps, second.steps)
    largest = _largest(first, second)
    return (
        f"{steps} optimizer steps: losses within rounding, largest difference {largest:.1e} of the largest "
        "loss; bits differ, as `--fast` lets the fused kernel change them"
    )


def _equal_words(first: _Curve, second: _Curve | None) -> str:
    assert second is not None
    steps = min(first.steps, second.steps)
    word = "step" if steps == 1 else "steps"
    with_what = f", with stand-ins for {first.stubs}" if first.stubs else ""
    return f"{steps} optimizer {word}: losses and weights equal bit for bit{with_what}"


def _outcome(status: Status, detail: str, curve: _Curve | None, started: float) -> ScriptOutcome:
    failed = curve is not None and curve.end == "error" and curve.steps == 0
    return ScriptOutcome(
        status=status,
        detail=detail,
        steps=0 if curve is None else curve.steps,
        losses=() if curve is None else curve.values[:64],
        source_runs=not failed,
        seconds=time.monotonic() - started,
    )
