"""Starts one child task (`python -m flodl.verify`) and reads what it left in its response file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import fdl_cli
from fdl_cli.errors import OperationFailedError
from fdl_cli.porter.ir.evidence import CheckEvidence, ClassEvidence, VerifyRequest
from fdl_cli.system.process import run

MEMORY_MB = 6144
GRACE_S = 5.0
_NOWHERE = "http://127.0.0.1:9"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds for the whole task, and for each class in it."""

    task_s: float
    class_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a child left behind.

    `done` is False when it was killed or died; `running` names the class and side last at work.
    `trouble` is the last line of its error output, or how it was ended. `needed_s` are the seconds that
    the task would have needed, where its time was over and it could tell.
    """

    classes: tuple[ClassEvidence, ...]
    done: bool
    running: tuple[str, str] | None
    source_runs: bool
    error: str | None
    trouble: str
    timed_out: bool
    needed_s: float | None = None


def run_task(
    request: VerifyRequest,
    task: Literal["check", "record", "curve"],
    names: tuple[str, ...],
    recording: Path | None,
    limits: Limits,
) -> Answer:
    """Run one task in a child process; a child that dies or hangs is an answer, not an error."""
    request_file = request.workdir / f"{task}-request.json"
    response_file = request.workdir / f"{task}-response.json"
    response_file.unlink(missing_ok=True)
    payload = {
        "version": 1,
        "task": task,
        "original": str(request.original.resolve()),
        "ported": str(request.ported.absolute()),
        "classes": list(names),
        "examples": list(request.examples),
        "search_path": [str(folder.resolve()) for folder in request.search_path],
        "ported_search_path": [str(folder.absolute()) for folder in request.ported_search_path],
        "drawings": request.drawings,
        "workdir": str(request.workdir.resolve()),
        "recording": None if recording is None else str(recording.resolve()),
        "limit_s": limits.task_s,
        "started_at": time.time(),
        "class_limit_s": limits.class_s,
        "memory_mb": MEMORY_MB,
    }
    request_file.write_text(json.dumps(payload), encoding="utf-8")
    argv = (request.python, "-m", "flodl.verify", request_file.resolve(), response_file.resolve())
    trouble, timed_out = _start(argv, request.workdir, limits.task_s + GRACE_S)
    return _read_answer(response_file, trouble, timed_out=timed_out)


def child_environment(workdir: Path) -> dict[str, str]:
    """Return the child's environment: one thread, no GPU, no pictures, the runtime importable."""
    environment = dict(os.environ)
    runtime = _link_runtime(workdir)
    known = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{runtime}{os.pathsep}{known}" if known else str(runtime)
    environment.update(
        OMP_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
        CUDA_VISIBLE_DEVICES="",
        MPLBACKEND="Agg",
        PYTHONHASHSEED="0",
        PYTHONDONTWRITEBYTECODE="1",
        # Programs that user code starts are out of reach of the guards in the child itself.
        **dict.fromkeys(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"), _NOWHERE),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE),
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        # GitPython starts git when it is imported, which is refused; it can do without.
        GIT_PYTHON_REFRESH="quiet",
        # numba keeps compiled functions beside their source, where nothing can be written.
        NUMBA_CACHE_DIR=str(workdir.resolve() / "numba"),
    )
    return environment


def _start(argv: tuple[str | Path, ...], workdir: Path, timeout: float) -> tuple[str, bool]:
    try:
        completed = run(
            argv, cwd=workdir, env=child_environment(workdir), timeout=timeout, check=False
        )
    except OperationFailedError:
        return f"stopped after {timeout:.0f} s", True
    if completed.returncode == 0:
        return "", False
    lines = completed.stderr.strip().splitlines()
    if completed.returncode < 0:
        return f"ended by signal {-completed.returncode}", False
    return lines[-1] if lines else f"exit code {completed.returncode}", False


def _link_runtime(workdir: Path) -> Path:
    # The user's Python need not have flodl installed. A folder with a link to the runtime alone
    # brings it there without the other packages of fdl's own environment.
    package = Path(fdl_cli.__file__).resolve().parent.parent / "flodl"
    folder = workdir.resolve() / "runtime"
    folder.mkdir(exist_ok=True)
    link = folder / "flodl"
    if not link.exists():
        link.symlink_to(package, target_is_directory=True)
    return folder


def _read_answer(file: Path, trouble: str, *, timed_out: bool) -> Answer:
    if not file.is_file():
        return Answer(
            classes=(),
            done=False,
            running=None,
            source_runs=True,
            error=None,
            trouble=trouble,
            timed_out=timed_out,
        )
    fields = json.loads(file.read_text(encoding="utf-8"))
    # Only the first line counts: a shorter one is written over a longer one.
    noted = file.with_suffix(".running").read_text(encoding="utf-8").partition("\n")[0]
    side, _, name = noted.partition(" ")
    return Answer(
        classes=tuple(_read_class(item) for item in fields["classes"]),
        done=fields["done"],
        running=(name, side) if side else None,
        source_runs=fields["source_runs"],
        error=fields["error"],
        trouble=trouble,
        timed_out=timed_out,
        needed_s=fields["needed_s"],
    )


def _read_class(fields: Mapping[str, object]) -> ClassEvidence:
    known = dict(fields)
    checks = known.pop("checks")
    assert isinstance(checks, list)
    return ClassEvidence(checks=tuple(CheckEvidence(**item) for item in checks), **known)  # type: ignore[arg-type]
