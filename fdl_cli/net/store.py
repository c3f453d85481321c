"""The cache: finished files by checksum, unfinished ones with the state to resume them.

A file is either complete and verified under `files/`, or a part under `parts/`. Nothing else
exists in between: the last step is one rename.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.net.artefact import Artefact

BLOCK: Final = 1024 * 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartNote:
    """A server's description of a file that is not complete yet."""

    url: str
    validator: str | None
    size: int | None


@final
class Store:
    """One cache folder, shared by all projects of a user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def key(self, artefact: Artefact) -> str:
        """Return the name of a file in the cache: its checksum, else a hash of its address."""
        if artefact.sha256 is not None:
            return artefact.sha256
        text = f"{artefact.urls[0]}\n{artefact.size}"
        return "url-" + hashlib.sha256(text.encode()).hexdigest()

    def finished(self, artefact: Artefact) -> Path:
        """Return where the complete file is, or will be, under its real name."""
        return self.folder / "files" / self.key(artefact) / Path(artefact.name).name

    def part(self, artefact: Artefact) -> Path:
        """Return where the bytes are collected."""
        return self.folder / "parts" / f"{self.key(artefact)}.part"

    def note(self, artefact: Artefact) -> Path:
        """Return where the note about the part is."""
        return self.folder / "parts" / f"{self.key(artefact)}.json"

    def lock(self, artefact: Artefact) -> Path:
        """Return the lock file of one artefact."""
        return self.folder / "locks" / f"{self.key(artefact)}.lock"

    def read_note(self, artefact: Artefact) -> PartNote | None:
        """Return the facts about the part; None when they are unreadable."""
        try:
            value = json.loads(self.note(artefact).read_text(encoding="utf-8"))
            return _note(value)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write_note(self, artefact: Artefact, note: PartNote) -> None:
        """Store the facts about the part."""
        path = self.note(artefact)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"url": note.url, "validator": note.validator, "size": note.size})
        temporary = path.with_suffix(".json.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)

    def discard_part(self, artefact: Artefact) -> None:
        """Forget an unfinished file."""
        self.part(artefact).unlink(missing_ok=True)
        self.note(artefact).unlink(missing_ok=True)

    def finish(self, artefact: Artefact) -> Path:
        """Move a verified part to its final name, in one step.

        A file with a checksum is checked again whenever it is taken from the cache, so a power
        cut can do no harm; only one without is worth the wait for the disk.
        """
        target = self.finished(artefact)
        target.parent.mkdir(parents=True, exist_ok=True)
        if artefact.sha256 is None:
            with self.part(artefact).open("rb") as file:
                os.fsync(file.fileno())
        self.part(artefact).replace(target)
        self.note(artefact).unlink(missing_ok=True)
        return target


def sha256_of(path: Path) -> str:
    """Return the checksum of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note(value: Mapping[str, Any]) -> PartNote:
    size = value["size"]
    validator = value["validator"]
    return PartNote(
        url=str(value["url"]),
        validator=None if validator is None else str(validator),
        size=None if size is None else int(size),
    )
