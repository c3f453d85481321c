"""Migration of a checkpoint in a child process, because matching and writing is the runtime's work."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import ConflictError, OperationFailedError, UsageError
from fdl_cli.system.process import run
from fdl_cli.system.user_python import UserPython, require_torch

LIMIT_S = 600.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRequest:
    """The source and the target of a migration; `rename` holds texts `OLD=NEW`."""

    source: Path
    target: Path
    like: Path | None
    rename: tuple[str, ...]
    in_order: bool
    force: bool
    python: UserPython


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """A tensor that has a new name."""

    old: str
    new: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The outcome of every tensor."""

    target: Path
    unchanged: tuple[str, ...]
    remapped: tuple[Renamed, ...]
    dropped: tuple[str, ...]
    missing: tuple[str, ...]


def migrate(request: MigrationRequest) -> Migration:
    """Migrate a file.

    Raises:
        UsageError: a rename is not OLD=NEW.
        ConflictError: the target exists, or the runtime refuses the match.
        EnvironmentLackingError: the Python has no torch.
        OperationFailedError: the child failed.
    """
    if request.target.exists() and not request.force:
        raise ConflictError(
            error_id="checkpoint-exists",
            message=f"{request.target} exists",
            hint="choose another TARGET, or overwrite it with --force",
            file=str(request.target),
        )
    require_torch(request.python, "migrating")
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "request.json", Path(folder) / "response.json"
        question.write_text(json.dumps(_payload(request)), encoding="utf-8")
        completed = run(
            request.python.runtime_command("flodl.checkpoint", question, answer),
            timeout=LIMIT_S,
            check=False,
        )
        if completed.returncode != 0 or not answer.is_file():
            raise _child_failed(completed.stderr)
        fields = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in fields:
        raise ConflictError(
            error_id="checkpoint-not-migrated",
            message="\n".join([fields["error"], *(f"  {each}" for each in fields["differences"])]),
            hint="decide with --rename OLD=NEW, or --in-order; `fdl checkpoint show` lists names",
        )
    return Migration(
        target=request.target,
        unchanged=tuple(fields["unchanged"]),
        remapped=tuple(Renamed(old=old, new=new) for old, new in fields["remapped"]),
        dropped=tuple(fields["dropped"]),
        missing=tuple(fields["missing"]),
    )


def _payload(request: MigrationRequest) -> dict[str, object]:
    rename = {}
    for text in request.rename:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise UsageError(
                error_id="rename-malformed",
                message=f"--rename {text!r} is not OLD=NEW",
                hint="write --rename encoder.weight=body.weight",
            )
        rename[old] = new
    return {
        "source": str(request.source),
        "target": str(request.target),
        "like": None if request.like is None else str(request.like),
        "rename": rename,
        "in_order": request.in_order,
    }


def _child_failed(stderr: str) -> OperationFailedError:
    lines = stderr.strip().splitlines()
    return OperationFailedError(
        error_id="migration-failed",
        message=f"the migration stopped: {lines[-1] if lines else 'without a word'}",
        hint="check the source with `fdl checkpoint verify`",
    )
