"""Verification of one port: record the script, compare class by class, resume after a child that died."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import time
from pathlib import Path

from fdl_cli.porter.ir.evidence import VerifyOutcome, VerifyRequest
from fdl_cli.porter.verify.child import Answer, Limits, run_task
from flodl_verify.protocol import TIME_LIMIT, ClassEvidence, NotRunReason, Status

RECORD_SHARE = 0.25
RECORD_LIMIT_S = 25.0
CLASS_LIMIT_S = 60.0
# Each round loses at most one class; a file whose classes keep killing the child is given up.
MAX_ROUNDS = 6
MIN_ROUND_S = 2.0
CURVE_SUFFIX = ".curve"
# A limit of time that is named as enough has so much more than what was measured, and than was given.
MARGIN = 1.3
LEAST_MORE = 1.25
# Rounded up to these steps, below these seconds.
_STEPS = ((100.0, 10), (1000.0, 50), (math.inf, 100))
_Missing = tuple[str, str, NotRunReason]


def verify_port(request: VerifyRequest) -> VerifyOutcome:
    """Compare a ported file with its original.

    Nothing is raised for what user code does: a class that cannot be compared is `not-run`, with
    the reason.
    """
    started = time.monotonic()
    deadline = started + request.timeout_s
    if not request.classes:
        return VerifyOutcome(classes=(), source_runs=True, error=None, seconds=0.0)
    recording = _record(request, deadline)
    found: dict[str, ClassEvidence] = {}
    error: str | None = None
    source_runs = True
    needed_s = 0.0
    for _ in range(MAX_ROUNDS):
        pending = tuple(name for name in request.classes if name not in found)
        remaining = deadline - time.monotonic()
        if not pending or remaining < MIN_ROUND_S:
            break
        limits = Limits(task_s=remaining, class_s=min(CLASS_LIMIT_S, remaining / 2))
        before_s = request.timeout_s - remaining
        answer = run_task(request, "check", pending, recording, limits)
        found.update((item.name, item) for item in answer.classes)
        if answer.error is not None:
            error, source_runs = answer.error, answer.source_runs
        if answer.changed or not _is_of(answer, request):
            # Nothing that was found belongs to the text that will be written.
            found, error = {}, "the port's file was changed while it was verified"
            break
        if answer.needed_s is not None:
            needed_s = max(needed_s, before_s + answer.needed_s)
        if answer.done:
            break
        if answer.running is None and not answer.classes:
            error = _start_error(answer, request.python)
            break
        _note_death(answer, pending, found)
    missing = _explain_missing(
        None if found else error,
        source_runs=source_runs or bool(found),
        timeout_s=request.timeout_s,
    )
    classes = tuple(found.get(name) or _named(missing, name) for name in request.classes)
    late = any(item.reason == "time" for item in classes)
    return VerifyOutcome(
        classes=classes,
        source_runs=source_runs,
        error=error,
        seconds=time.monotonic() - started,
        sufficient_s=sufficient_seconds(needed_s, request.timeout_s) if late else None,
    )


def _is_of(answer: Answer, request: VerifyRequest) -> bool:
    expected = request.ported_sha256
    return not answer.done or not expected or answer.proved_sha256 == expected


def sufficient_seconds(needed_s: float, given_s: float) -> int:
    """Return a time limit that is enough for a proof, rounded up to a usual number.

    `needed_s` is what was measured and estimated, 0 where the process ended before it could tell.

    Example:
        >>> sufficient_seconds(131.0, 120.0)
        200
    """
    # A busy machine takes longer the next time; and the double is a fair try where nothing is known.
    wanted = max(MARGIN * needed_s, LEAST_MORE * given_s) if needed_s else 2 * given_s
    step = next(step for limit, step in _STEPS if wanted <= limit)
    return math.ceil(wanted / step) * step


def recording_of(original: Path, workdir: Path) -> Path:
    """Return where the recorded run of a script is kept, with its curve beside it."""
    content = original.read_bytes() + str(original.resolve()).encode()
    name = hashlib.blake2b(content, digest_size=8).hexdigest()
    return workdir / f"recording-{name}.bin"


def has_entry_point(file: Path) -> bool:
    """Return True if running a file does more than define names: only then a recorded run pays."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:
        return False
    return any(_acts(node) for node in tree.body)


def _acts(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        # `if is_scipy_available(): from scipy import optimize` only tests for a package.
        return any(_calls(item) for item in (*node.body, *node.orelse))
    if isinstance(node, ast.For | ast.While | ast.With):
        return _calls(node)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.Assign) and _calls_method(node)


def _calls(node: ast.AST) -> bool:
    """Return True if code calls something when it runs; a definition does not, nor does asking in an `if`."""
    match node:
        case ast.Call():
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
            return False
        case ast.If(body=body, orelse=orelse):
            return any(_calls(item) for item in (*body, *orelse))
        case _:
            return any(_calls(item) for item in ast.iter_child_nodes(node))


def _calls_method(node: ast.Assign) -> bool:
    # `out = model(x)` at the top level is at least an assigned call of a name.
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)


def _record(request: VerifyRequest, deadline: float) -> Path | None:
    if not has_entry_point(request.original):
        return None
    recording = recording_of(request.original, request.workdir)
    if recording.is_file():
        # A class was demoted and the port is verified again: the original is still the same.
        return recording
    limit = min(RECORD_LIMIT_S, RECORD_SHARE * (deadline - time.monotonic()))
    limits = Limits(task_s=limit, class_s=limit)
    answer = run_task(request, "record", request.classes, None, limits)
    if answer.recording is None:
        return None
    if answer.curve is not None:
        text = json.dumps(answer.curve)
        recording.with_suffix(CURVE_SUFFIX).write_text(text, encoding="utf-8")
    recording.write_bytes(answer.recording)
    return recording


def _note_death(answer: Answer, pending: tuple[str, ...], found: dict[str, ClassEvidence]) -> None:
    name, side = answer.running or ("", "original")
    if name not in pending:
        name = next(item for item in pending if item not in found)
    crashed_port = side == "port" and not answer.timed_out
    whose = "the port" if side == "port" else "the original"
    status: Status = "different" if crashed_port else "not-run"
    code = TIME_LIMIT if answer.timed_out else f"{side}-crashes"
    detail = f"the process ended while it ran {whose}: {answer.trouble}"
    if answer.malformed:
        status, code = "not-run", "malformed-answer"
        detail = f"the process that ran {whose} sent something else than answers: {answer.trouble}"
    found[name] = ClassEvidence(
        name=name,
        status=status,
        detail=detail,
        checks=(),
        example="",
        error_code=code,
        line=None,
        reason=None if crashed_port else "time" if answer.timed_out else "does-not-run",
    )


def _start_error(answer: Answer, python: str) -> str:
    for package in ("torch", "flodl"):
        if f"No module named '{package}'" in answer.trouble:
            return f"{python} has no {package}: run `fdl setup`, or port with `--no-verify`"
    return f"the verification could not start with {python}: {answer.trouble}"


def _explain_missing(error: str | None, *, source_runs: bool, timeout_s: float) -> _Missing:
    if not source_runs:
        text = f"the original cannot be imported: {error}"
        return "source-does-not-run", text, "does-not-run"
    if error is not None:
        return "cannot-verify", error, "does-not-run"
    return TIME_LIMIT, f"not reached within {timeout_s:.0f} s", "time"


def _named(missing: _Missing, name: str) -> ClassEvidence:
    code, detail, reason = missing
    return ClassEvidence(
        name=name,
        status="not-run",
        detail=detail,
        checks=(),
        example="",
        error_code=code,
        line=None,
        reason=reason,
    )
