"""Migration of a checkpoint in a child process, because matching and writing is the runtime's work."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.checkpoint.child import answer_of
from fdl_cli.errors import ConflictError, UsageError
from fdl_cli.system.user_python import UserPython, require_torch


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
    fields = answer_of(request.python, "flodl.checkpoint", _payload(request), purpose="migration")
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
