"""Small JSON files that are old or new, never half."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO

from flodl.checkpoint.commit import commit
from flodl.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_note(path: Path, content: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write a table of plain values; values that JSON cannot hold are written as text.

    Args:
        path: the file.
        content: the table.
        durable: wait until it is on the disk; otherwise a power failure, but no killed process, may lose it.
    """
    text = json.dumps(content, indent=1, default=str).encode() + b"\n"
    if not durable:
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(text)
        temporary.replace(path)
        return

    def put(stream: BinaryIO) -> None:
        stream.write(text)

    commit(path, put)


def read_note(path: Path) -> dict[str, Any]:
    """Read a table; an absent file is an empty one.

    Raises:
        RunError: the file is not readable.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path}: not readable ({error})") from error
