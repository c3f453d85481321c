"""Record of a scaffold: the answers, and the pristine text of every file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli import __version__
from fdl_cli.errors import ConfigError, NotFoundError
from fdl_cli.scaffold.answers import PARTS, Answers
from fdl_cli.scaffold.metadata import PYTHONS
from fdl_cli.scaffold.rendering import ProjectFile

RECORD: Final = ".fdl/scaffold.json"
_FORMAT: Final = 1
# Parts of earlier templates that every project has now.
_NOW_IN_BASE: Final = frozenset({"monitor"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldRecord:
    """The state of the templates when a project was last written."""

    version: str
    answers: Answers
    base: Mapping[str, str]


def record_text(answers: Answers, files: tuple[ProjectFile, ...]) -> str:
    """Return the record of a project with these pristine files."""
    document = {
        "format": _FORMAT,
        "fdl": __version__,
        "answers": {
            "name": answers.name,
            "parts": answers.parts,
            "ported": answers.ported,
            "author": answers.author,
            "license": answers.license,
            "python": answers.python,
        },
        "base": {file.path: file.text for file in files},
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def read_record(root: Path) -> ScaffoldRecord:
    """Read the record of a project.

    Raises:
        NotFoundError: this is not a project made by `fdl init`.
        ConfigError: the record is damaged, or of a newer fdl.
    """
    path = root / RECORD
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise NotFoundError(
            error_id="scaffold-missing",
            message=f"`{root}` has no `{RECORD}`: it was not made by `fdl init`",
            hint="go to such a project, or make one: `fdl init my-proj`",
        ) from problem
    try:
        document = json.loads(text)
        return _record(document)
    except (ValueError, KeyError, TypeError) as problem:
        raise ConfigError(
            error_id="scaffold-damaged",
            message=f"the record of the scaffold cannot be read: {problem}",
            hint="restore it from version control: `git checkout -- .fdl/scaffold.json`",
            file=str(path),
        ) from problem


def _record(document: dict[str, Any]) -> ScaffoldRecord:
    if document["format"] != _FORMAT:
        raise ValueError(f"its format is {document['format']}, this fdl knows {_FORMAT}")
    answers = document["answers"]
    python = answers.get("python", PYTHONS[0])
    if python not in PYTHONS:
        raise ValueError(f"unknown Python: {python}")
    unknown = set(answers["parts"]) - set(PARTS) - _NOW_IN_BASE
    if unknown:
        raise ValueError(f"unknown parts: {', '.join(sorted(unknown))}")
    return ScaffoldRecord(
        version=document["fdl"],
        answers=Answers(
            name=answers["name"],
            parts=tuple(part for part in PARTS if part in answers["parts"]),
            ported=answers["ported"],
            # Records of earlier versions have none of these.
            author=answers.get("author", ""),
            license=answers.get("license", ""),
            python=python,
        ),
        base={str(name): str(text) for name, text in document["base"].items()},
    )
