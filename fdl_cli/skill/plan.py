"""Plan of installing, updating or removing a skill, file by file; edited files stop it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

from fdl_cli.errors import ConflictError, NotFoundError
from fdl_cli.skill.bundled import Skill
from fdl_cli.skill.lock import LOCK, Installed, lock_data, read_lock
from fdl_cli.skill.targets import (
    NOTES,
    Scope,
    TargetFile,
    Tool,
    digest,
    find_block,
    target_files,
    with_block,
    without_block,
)
from fdl_cli.system.transaction import FileChange

Action = Literal["create", "same", "update", "conflict", "remove"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillStep:
    """One file and its action; conflicts carry the reason."""

    path: str
    action: Action
    reason: str
    data: bytes | None
    executable: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPlan:
    """All steps for one skill, and the lock after them."""

    root: Path
    steps: tuple[SkillStep, ...]
    lock: bytes | None

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Return the files that stop the plan."""
        return tuple(step.path for step in self.steps if step.action == "conflict")

    def changes(self) -> tuple[FileChange, ...]:
        """Return the changes of files, the lock last; nothing where all is as it should be."""
        changes = [
            FileChange(path=step.path, data=step.data, executable=step.executable)
            for step in self.steps
            if step.action in ("create", "update", "remove")
        ]
        if not changes and self.lock == _read(self.root / LOCK):
            return ()
        return (*changes, FileChange(path=LOCK, data=self.lock))


def plan_install(
    root: Path, skill: Skill, tools: tuple[Tool, ...], scope: Scope, *, force: bool
) -> SkillPlan:
    """Plan to have a skill under a folder, in the bundled version.

    Raises:
        ConflictError: a newer version is installed.
    """
    installed = read_lock(root)
    before = installed.get(skill.name)
    if before is not None and _newer(before.version, skill.version) and not force:
        raise ConflictError(
            error_id="skill-newer",
            message=f"`{skill.name}` {before.version} is installed; this fdl brings {skill.version}",
            hint="update fdl, or pass --force to go back",
        )
    known = {} if before is None else dict(before.files)
    wanted = [file for tool in tools for file in target_files(skill, tool, scope)]
    steps = [_install_step(root, file, known, force=force) for file in wanted]
    paths = {file.path for file in wanted}
    steps += [
        _remove_step(root, path, mark, force=force)
        for path, mark in sorted(known.items())
        if path not in paths
    ]
    if scope == "project" and "agents" in tools:
        steps.append(_notes_step(root, skill, force=force))
    after = Installed(
        name=skill.name,
        version=skill.version,
        tools=tools,
        files={file.path: digest(file.data) for file in wanted},
    )
    lock = lock_data({**installed, skill.name: after})
    return SkillPlan(root=root, steps=_existing(steps), lock=lock)


def plan_remove(root: Path, name: str, *, force: bool) -> SkillPlan:
    """Plan to remove an installed skill, and nothing else.

    Raises:
        NotFoundError: it is not installed here.
    """
    item = installed_skill(root, name)
    rest = {key: value for key, value in read_lock(root).items() if key != name}
    steps = [
        _remove_step(root, path, mark, force=force) for path, mark in sorted(item.files.items())
    ]
    steps.append(_notes_removal(root, name, force=force))
    return SkillPlan(root=root, steps=_existing(steps), lock=lock_data(rest))


def installed_skill(root: Path, name: str) -> Installed:
    """Return the lock's entry of a skill.

    Raises:
        NotFoundError: it is not installed here.
    """
    installed = read_lock(root)
    if name not in installed:
        raise NotFoundError(
            error_id="skill-not-installed",
            message=f"the skill `{name}` is not installed in `{root}`",
            hint="see what is: `fdl skill list`; install it: `fdl skill install`",
        )
    return installed[name]


def edited_files(root: Path, item: Installed) -> tuple[str, ...]:
    """Return the installed files that were changed since."""
    return tuple(
        path
        for path, mark in sorted(item.files.items())
        if (data := _read(root / path)) is None or digest(data) != mark
    )


def _install_step(
    root: Path, file: TargetFile, known: dict[str, str], *, force: bool
) -> SkillStep | None:
    ours = _read(root / file.path)
    step = SkillStep(
        path=file.path, action="create", reason="", data=file.data, executable=file.executable
    )
    if ours is None:
        return step
    if ours == file.data:
        return replace(step, action="same", data=None)
    if force or known.get(file.path) == digest(ours):
        return replace(step, action="update")
    reason = "you edited it" if file.path in known else "a file of this name is yours"
    return replace(step, action="conflict", reason=reason, data=None)


def _remove_step(root: Path, path: str, mark: str, *, force: bool) -> SkillStep | None:
    ours = _read(root / path)
    if ours is None:
        return None
    action: Action = "remove"
    reason = ""
    if digest(ours) != mark and not force:
        action, reason = "conflict", "you edited it"
    return SkillStep(path=path, action=action, reason=reason, data=None, executable=False)


def _notes_step(root: Path, skill: Skill, *, force: bool) -> SkillStep:
    ours = _read(root / NOTES)
    text = "" if ours is None else ours.decode("utf-8", errors="surrogateescape")
    block = find_block(text, skill.name)
    new = with_block(text, skill).encode("utf-8", errors="surrogateescape")
    action: Action = "create" if ours is None else "update"
    reason = ""
    if ours == new:
        action = "same"
    elif block is not None and block.edited and not force:
        action, reason = "conflict", "you edited the block of this skill"
    data = new if action in ("create", "update") else None
    return SkillStep(path=NOTES, action=action, reason=reason, data=data, executable=False)


def _notes_removal(root: Path, name: str, *, force: bool) -> SkillStep | None:
    ours = _read(root / NOTES)
    text = "" if ours is None else ours.decode("utf-8", errors="surrogateescape")
    block = find_block(text, name)
    if block is None:
        return None
    if block.edited and not force:
        reason = "you edited the block of this skill"
        return SkillStep(path=NOTES, action="conflict", reason=reason, data=None, executable=False)
    new = without_block(text, name).encode("utf-8", errors="surrogateescape")
    action: Action = "update" if new else "remove"
    return SkillStep(path=NOTES, action=action, reason="", data=new or None, executable=False)


def _existing(steps: list[SkillStep | None] | list[SkillStep]) -> tuple[SkillStep, ...]:
    return tuple(step for step in steps if step is not None)


def _newer(first: str, second: str) -> bool:
    return _numbers(first) > _numbers(second)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
