"""History of runs, read from their records: one entry for each run, the latest first."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.errors import NotFoundError
from fdl_cli.manifest.records import records_path

START: Final = frozenset(
    (
        "id", "root", "task", "words", "environment", "place", "append", "argv", "folder",
        "service", "env", "digest", "git", "started_s",
    )
)  # fmt: skip
END: Final = frozenset(("id", "exit_code", "seconds"))
KEPT: Final = 1000
TRIM_BYTES: Final = 2_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run; `exit_code` and `seconds` are None until it ends, and if fdl was killed."""

    id: str
    task: str
    words: tuple[str, ...]
    overlay: str | None
    place: str | None
    append: bool
    command: str
    argv: tuple[str, ...]
    folder: Path
    service: str | None
    env: Mapping[str, str | None]
    digest: str
    git: str | None
    started_s: float
    exit_code: int | None
    seconds: float | None


def read_history(root: Path, environ: Mapping[str, str]) -> tuple[RunRecord, ...]:
    """Return the runs of a project, the latest first; damaged lines are left out."""
    path = Path(records_path(str(root), environ))
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    lines = text.splitlines()
    found: dict[str, RunRecord] = {}
    for line in lines:
        record = _line(line)
        if record is None or record.get("root", str(root)) != str(root):
            continue
        _take(found, record)
    if len(text) > TRIM_BYTES:
        _trim(path, lines)
    return tuple(reversed(found.values()))


def find_run(records: tuple[RunRecord, ...], wanted: str | None) -> RunRecord:
    """Return the run with an id (or the beginning of one), or the latest.

    Raises:
        NotFoundError: there is no such run, or several fit.
    """
    if not records:
        raise NotFoundError(
            error_id="run-unknown", message="nothing was run here yet", hint="`fdl run --list`"
        )
    if wanted is None:
        return records[0]
    fitting = [record for record in records if record.id.startswith(wanted)]
    exact = [record for record in fitting if record.id == wanted]
    if len(exact or fitting) != 1:
        how = "several runs begin" if fitting else "no run begins"
        raise NotFoundError(
            error_id="run-unknown", message=f"{how} with `{wanted}`", hint="`fdl runs` lists them"
        )
    return (exact or fitting)[0]


def _line(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        # A full disk can cut a line off; the other runs are still worth showing.
        return None
    # Also a record that another version of fdl wrote in another form.
    known = isinstance(record, dict) and (record.keys() >= START or record.keys() == END)
    return record if known else None


def _take(found: dict[str, RunRecord], record: dict[str, Any]) -> None:
    if "task" in record:
        found[record["id"]] = _record(record)
    elif record["id"] in found:
        found[record["id"]] = replace(
            found[record["id"]], exit_code=record["exit_code"], seconds=record["seconds"]
        )


def _record(record: dict[str, Any]) -> RunRecord:
    import shlex

    return RunRecord(
        id=record["id"],
        task=" ".join(record["task"]),
        words=tuple(record["words"]),
        overlay=record["environment"],
        place=record["place"],
        append=record["append"],
        command=shlex.join(record["argv"]),
        argv=tuple(record["argv"]),
        folder=Path(record["folder"]),
        service=record["service"],
        env=record["env"],
        digest=record["digest"],
        git=record["git"],
        started_s=record["started_s"],
        exit_code=None,
        seconds=None,
    )


def _trim(path: Path, lines: list[str]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text("\n".join(lines[-KEPT:]) + "\n", encoding="utf-8")
    temporary.chmod(0o600)
    temporary.replace(path)
