"""Run of one source of facts: its words, exit code and time, whatever happens."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.system.facts import ProbeReport, Verdict
from fdl_cli.system.process import run as run_process

# The output of a source is kept for people and for `--facts`; a listing of 16 GPUs fits.
KEPT_CHARACTERS: Final = 4000

# (source, argv, seconds) -> (report, stdout and stderr together)
Runner = Callable[[str, Sequence[str], float], tuple[ProbeReport, str]]


def run_program(source: str, argv: Sequence[str], seconds: float) -> tuple[ProbeReport, str]:
    """Run a probe program; a missing program and a timeout are answers too."""
    asked = " ".join(argv)
    started = time.monotonic()
    try:
        done = run_process(argv, timeout=seconds, check=False)
    except EnvironmentLackingError as problem:
        return _report(source, asked, "missing", None, started, problem.message), ""
    except OperationFailedError as problem:
        return _report(source, asked, "timeout", None, started, problem.message), ""
    text = done.stdout + done.stderr
    verdict: Verdict = "answered" if done.returncode == 0 else "failed"
    return _report(source, asked, verdict, done.returncode, started, text), text


def found_file(source: str, path: Path, said: str) -> ProbeReport:
    """Report the contents of a file or folder of the system."""
    return ProbeReport(
        source=source,
        asked=str(path),
        verdict="answered" if path.exists() else "missing",
        exit_code=None,
        seconds=0.0,
        said=said[:KEPT_CHARACTERS],
    )


def skipped(source: str, asked: str, reason: str) -> ProbeReport:
    """Report a source that was not probed, and why."""
    return ProbeReport(
        source=source, asked=asked, verdict="skipped", exit_code=None, seconds=0.0, said=reason
    )


def _report(
    source: str, asked: str, verdict: Verdict, code: int | None, started: float, said: str
) -> ProbeReport:
    return ProbeReport(
        source=source,
        asked=asked,
        verdict=verdict,
        exit_code=code,
        seconds=round(time.monotonic() - started, 4),
        said=said.strip()[:KEPT_CHARACTERS],
    )
