"""The last reading of the torch index, kept with its time so that plans work without network."""

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.torch_setup.choice.catalogue import HeldBuild
from fdl_cli.torch_setup.project_files import write_atomically

NAME: Final = "torch-index.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The contents of an index at one moment: all variants or nothing.

    `address` is where a variant's packages are; `tags` are the ETags of the pages, for
    conditional requests.
    """

    source: str
    address: str | None
    taken_at: float
    held: tuple[HeldBuild, ...]
    tags: tuple[tuple[str, str], ...] = ()


def snapshot_age(cache: Path) -> float | None:
    """Return how many seconds ago the index was read; None when it never was."""
    kept = load_snapshot(cache)
    return None if kept is None else max(0.0, round(time.time() - kept.taken_at, 1))


def load_snapshot(cache: Path) -> Snapshot | None:
    """Return the kept snapshot; an unreadable one counts as none."""
    try:
        value = json.loads((cache / NAME).read_text(encoding="utf-8"))
        return _decode(value)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_snapshot(cache: Path, snapshot: Snapshot) -> None:
    """Keep a snapshot, unless a newer one was kept meanwhile; where nothing can be kept, nothing is."""
    kept = load_snapshot(cache)
    if kept is not None and kept.source == snapshot.source and kept.taken_at > snapshot.taken_at:
        return
    document = {
        "source": snapshot.source,
        "address": snapshot.address,
        "taken_at": snapshot.taken_at,
        "tags": dict(snapshot.tags),
        "held": [
            {
                "version": item.version,
                "variant": item.variant,
                "pythons": None if item.pythons is None else list(item.pythons),
                "tagged": item.tagged,
            }
            for item in snapshot.held
        ],
    }
    with contextlib.suppress(OSError):  # the next run reads the index again
        write_atomically(cache / NAME, json.dumps(document, indent=1).encode())


def _decode(value: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        source=str(value["source"]),
        address=None if value["address"] is None else str(value["address"]),
        taken_at=float(value["taken_at"]),
        tags=tuple((str(key), str(tag)) for key, tag in value["tags"].items()),
        held=tuple(
            HeldBuild(
                version=str(item["version"]),
                variant=str(item["variant"]),
                pythons=None if item["pythons"] is None else tuple(item["pythons"]),
                tagged=bool(item["tagged"]),
            )
            for item in value["held"]
        ),
    )
