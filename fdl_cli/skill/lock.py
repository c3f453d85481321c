"""Record of installed skills, with the hash of every file, so that an edited file is recognised."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.errors import ConfigError
from fdl_cli.skill.targets import TOOLS, Tool

LOCK: Final = ".agents/flodl-skills.lock.json"
_FORMAT: Final = 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One installed skill: its version, the tools it is for, and the hash of each file."""

    name: str
    version: str
    tools: tuple[Tool, ...]
    files: Mapping[str, str]


def read_lock(root: Path) -> dict[str, Installed]:
    """Return the installed skills under a folder, by name.

    Raises:
        ConfigError: the lock is damaged.
    """
    path = root / LOCK
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ConfigError(
            error_id="skill-lock-damaged",
            message=f"the lock of installed skills cannot be read: {problem}",
            hint="restore it from version control, or remove it and install again",
            file=str(path),
        ) from problem


def _parse(document: dict[str, Any]) -> dict[str, Installed]:
    if document["format"] != _FORMAT:
        raise ValueError(f"its format is {document['format']}, this fdl knows {_FORMAT}")
    return {
        name: Installed(
            name=name,
            version=item["version"],
            tools=tuple(tool for tool in TOOLS if tool in item["tools"]),
            files={str(file): str(mark) for file, mark in item["files"].items()},
        )
        for name, item in document["skills"].items()
    }


def lock_data(installed: Mapping[str, Installed]) -> bytes | None:
    """Return the content of the lock; nothing when no skill is left."""
    if not installed:
        return None
    skills = {
        name: {"version": item.version, "tools": item.tools, "files": dict(item.files)}
        for name, item in sorted(installed.items())
    }
    document = {"format": _FORMAT, "skills": skills}
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
