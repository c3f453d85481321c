"""Questions about checkpoint files, and saving and loading by lists of named tensors."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from flodl.checkpoint.contents import AbstractContents, Source, open_contents, stored_table
from flodl.checkpoint.migrate import MigrateReport, migrate_checkpoint
from flodl.checkpoint.store import LoadReport, Target, load_named, save, write
from flodl.errors import CheckpointError
from flodl.iterables import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor, nn

Named: TypeAlias = "Iterable[tuple[str, Tensor]]"


def checkpoint_version(source: Source) -> int:
    """Return the version of a file's format: 1 and 2 are the Rust framework's, 3 is ours, 0 foreign.

    A stream is left where it was, so that `load_checkpoint` can read it next; one that cannot seek is read.
    """
    return _peek(source).version


def checkpoint_keys(source: Source) -> tuple[str, ...]:
    """Return the names of all tensors without reading their values; see `checkpoint_version` for streams."""
    contents = _peek(source)
    tied = stored_table(contents.metadata, "fdl.tied", contents.path)
    return (*(each.name for each in contents.entries()), *tied)


def checkpoint_config(source: Source) -> str | None:
    """Return the text that was saved as `config`, if any; see `checkpoint_version` for streams."""
    return _peek(source).metadata.get("fdl.config")


def verify(source: Source) -> tuple[str, ...]:
    """Check every byte of a file and return the damaged parts; none for a sound file.

    Raises:
        CheckpointError: the file cannot even be opened.
    """
    return _peek(source).problems()


def _peek(source: Source) -> AbstractContents:
    """Open a file for a question; a stream that can seek goes back to where it was."""
    if isinstance(source, str | Path) or not source.seekable():
        return open_contents(source)
    place = source.tell()
    try:
        return open_contents(source)
    finally:
        source.seek(place)


def to_bytes(module: nn.Module) -> bytes:
    """Return the content that `save` writes."""
    stream = BytesIO()
    save(module, stream)
    return stream.getvalue()


def _together(named_parameters: Named, named_buffers: Named) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    parameters = listed(named_parameters, "named_parameters", callers=2)
    buffers = listed(named_buffers, "named_buffers", may_be_empty=True, callers=2)
    for name, each in (*parameters, *buffers):
        if name in found:
            raise CheckpointError(f"the name {name!r} is given twice")
        found[name] = each
    return found


def save_checkpoint_file(
    target: Target,
    named_parameters: Named,
    named_buffers: Named = (),
    structural_hash: str | None = None,
) -> None:
    """Save lists of named tensors, with the hash of an architecture if there is one.

    Raises:
        CheckpointError: a name is given twice, a tensor has no form in the file, or it cannot be written.
        ValueError: a list is a generator that was read to its end before.
    """
    metadata = {} if structural_hash is None else {"fdl.structural_hash": structural_hash}
    write(target, _together(named_parameters, named_buffers), metadata)


def load_checkpoint_file(
    source: Source,
    named_parameters: Named,
    named_buffers: Named = (),
    structural_hash: str | None = None,
) -> LoadReport:
    """Load into lists of named tensors; the architecture is checked only if a hash is given.

    Raises:
        CheckpointError: the file is damaged or of another architecture, or a shape differs.
    """
    # A stream gives its bytes once, so the file is opened once for the hash and for the values.
    contents = open_contents(source)
    stored = contents.metadata.get("fdl.structural_hash")
    if structural_hash and stored and stored != structural_hash:
        raise CheckpointError(
            f"the file was saved from architecture {stored[:8]}, not {structural_hash[:8]}; load into the "
            "module itself to see the difference, or give no hash",
            path=contents.path,
        )
    compared = bool(structural_hash and stored)
    return load_named(_together(named_parameters, named_buffers), contents, compared=compared)


def migrate_checkpoint_file(
    source: Source,
    target: Target,
    named_parameters: Named,
    named_buffers: Named = (),
    *,
    rename: Mapping[str, str] | None = None,
    in_order: bool = False,
) -> MigrateReport:
    """Write a copy of a checkpoint with the names of these tensors; see `migrate_checkpoint`.

    Raises:
        CheckpointError: the match is ambiguous, a file is damaged, or both are the same file.
    """
    tensors = _together(named_parameters, named_buffers)
    return migrate_checkpoint(source, target, tensors, rename=rename, in_order=in_order)
