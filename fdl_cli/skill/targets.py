"""Folders in which assistants look for skills, and the exact files of one skill there."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal, final

from fdl_cli.skill.bundled import Skill

Tool = Literal["agents", "claude", "cursor"]
Scope = Literal["project", "user"]

TOOLS: Final[tuple[Tool, ...]] = ("agents", "claude", "cursor")
NOTES: Final = "AGENTS.md"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFile:
    """One file that a skill becomes in a project or home folder."""

    path: str
    data: bytes
    executable: bool


def target_files(skill: Skill, tool: Tool, scope: Scope) -> tuple[TargetFile, ...]:
    """Return the files of a skill for one tool; cursor has none for a whole user."""
    if tool == "cursor":
        if scope == "user":
            return ()
        return (
            TargetFile(
                path=f".cursor/rules/{skill.name}.mdc",
                data=_cursor_rule(skill).encode(),
                executable=False,
            ),
        )
    folder = f".{tool}/skills/{skill.name}"
    return tuple(
        TargetFile(path=f"{folder}/{file.path}", data=file.data, executable=file.executable)
        for file in skill.files
    )


def digest(data: bytes) -> str:
    """Return the hash by which an edited file is recognised."""
    return hashlib.sha256(data).hexdigest()


def _cursor_rule(skill: Skill) -> str:
    # A rule is one file: it points to the installed skill for the rest.
    body = skill.body.replace("](references/", f"](../../.agents/skills/{skill.name}/references/")
    body = body.replace("scripts/check.py", f".agents/skills/{skill.name}/scripts/check.py")
    return (
        f"---\ndescription: {skill.description}\nglobs: '**/*.py'\nalwaysApply: false\n---\n{body}"
    )


def notes_block(skill: Skill) -> str:
    """Return the block that names a skill in AGENTS.md, with markers around it."""
    text = (
        f"When asked to port PyTorch code to flodl, follow `.agents/skills/{skill.name}/SKILL.md`.\n"
        "`fdl api-ref NAME` explains a name of flodl.\n"
    )
    mark = digest(text.encode())[:16]
    begin = f"<!-- flodl:begin {skill.name} v={skill.version} sha={mark} -->"
    return f"{begin}\n{text}<!-- flodl:end {skill.name} -->\n"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NotesBlock:
    """A block in AGENTS.md: where, and whether its text was edited."""

    start: int
    end: int
    edited: bool


def find_block(text: str, name: str) -> NotesBlock | None:
    """Return the block of a skill in AGENTS.md, if it is there."""
    pattern = (
        rf"<!-- flodl:begin {re.escape(name)} v=\S+ sha=(\w+) -->\n(.*?)"
        rf"<!-- flodl:end {re.escape(name)} -->\n?"
    )
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        return None
    edited = digest(found.group(2).encode())[:16] != found.group(1)
    return NotesBlock(start=found.start(), end=found.end(), edited=edited)


def with_block(text: str, skill: Skill) -> str:
    """Return AGENTS.md with the block of a skill, replaced or added at the end."""
    block = notes_block(skill)
    found = find_block(text, skill.name)
    if found is not None:
        return text[: found.start] + block + text[found.end :]
    return f"{text}\n{block}" if text else block


def without_block(text: str, name: str) -> str:
    """Return AGENTS.md as it was before the block was added."""
    found = find_block(text, name)
    if found is None:
        return text
    before = text[: found.start]
    return before.removesuffix("\n") + text[found.end :]
