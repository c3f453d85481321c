"""The skills that come with this version of `fdl`, read and checked against the format's rules."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.assets import assets
from fdl_cli.errors import ConfigError, NotFoundError

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1024
MOST_LINES: Final = 500


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """One file of a skill, by its path in the skill's folder."""

    path: str
    data: bytes
    executable: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One bundled skill; `body` is SKILL.md without its head."""

    name: str
    version: str
    description: str
    body: str
    files: tuple[SkillFile, ...]


def bundled_skills() -> tuple[Skill, ...]:
    """Return all skills of this installation, by name."""
    root = assets("skills")
    folders = sorted(path.parent for path in root.glob("*/SKILL.md"))
    return tuple(read_skill(folder) for folder in folders)


def find_skill(name: str) -> Skill:
    """Return a bundled skill.

    Raises:
        NotFoundError: there is none of this name.
    """
    skills = {skill.name: skill for skill in bundled_skills()}
    if name not in skills:
        raise NotFoundError(
            error_id="skill-unknown",
            message=f"there is no skill `{name}`",
            hint=f"there is: {', '.join(f'`{known}`' for known in skills)}",
        )
    return skills[name]


def read_skill(folder: Path) -> Skill:
    """Read a skill and hold it to the rules of the agent-skills format.

    Raises:
        ConfigError: SKILL.md breaks a rule; the message says which.
    """
    path = folder / "SKILL.md"
    head, body = _split(path)
    files = tuple(
        SkillFile(
            path=item.relative_to(folder).as_posix(),
            data=item.read_bytes(),
            executable=item.suffix in (".py", ".sh") and item.parent.name == "scripts",
        )
        for item in sorted(folder.rglob("*"))
        if item.is_file() and "__pycache__" not in item.parts
    )
    skill = Skill(
        name=head.get("name", ""),
        version=head.get("version", ""),
        description=head.get("description", ""),
        body=body,
        files=files,
    )
    _check(skill, folder)
    return skill


def _split(path: Path) -> tuple[dict[str, str], str]:
    text = path.read_text(encoding="utf-8")
    found = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    if found is None:
        raise _broken(path, "it has no head between `---` lines")
    head: dict[str, str] = {}
    for line in found.group(1).splitlines():
        key, colon, value = line.strip().partition(":")
        if not colon:
            raise _broken(path, f"its head has the line `{line}`")
        head[key] = value.strip().strip('"')
    return head, found.group(2)


def _check(skill: Skill, folder: Path) -> None:
    problems = (
        (skill.name != folder.name, f"its name is `{skill.name}`, its folder `{folder.name}`"),
        (not _NAME.fullmatch(skill.name) or len(skill.name) > LONGEST_NAME, "its name is invalid"),
        (not 1 <= len(skill.description) <= LONGEST_DESCRIPTION, "its description is too long"),
        (not skill.version, "it has no version"),
        (skill.body.count("\n") >= MOST_LINES, f"its body has {MOST_LINES} lines or more"),
    )
    for wrong, message in problems:
        if wrong:
            raise _broken(folder / "SKILL.md", message)


def _broken(path: Path, message: str) -> ConfigError:
    return ConfigError(
        error_id="skill-broken",
        message=f"this is not a skill: {message}",
        hint="reinstall fdl: `python -m pip install --force-reinstall 'flodl[cli]'`",
        file=str(path),
    )
