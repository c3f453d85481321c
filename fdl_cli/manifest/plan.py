"""Plan of a task, as data for people and programs: `-n`, `fdl why` and their JSON."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.manifest.model import Invocation
from fdl_cli.manifest.reading.document import Node, Place, Table
from fdl_cli.manifest.reading.load import Manifest
from fdl_cli.manifest.reading.overlay import leaves, lookup
from fdl_cli.manifest.request import Request, needed_by, task_path

# Text that YAML reads as this very text, also inside `[...]`.
_PLAIN: Final = re.compile(r"(?:[A-Za-z_./]|-(?=\S))(?:[^\n#:,\[\]{}\"']*[^\n#:,\[\]{}\"'\s])?")
_SPECIAL: Final = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", ".nan", ".inf")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable that the task gets; `before` is its value in this process."""

    name: str
    value: str | None
    before: str | None
    reason: str
    file: str | None
    line: int | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value of the manifest that the task uses, and the file and line that set it."""

    key: str
    value: str
    file: str
    line: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One task as it would run; `command` is `argv` quoted for a shell, `needs` run before it.

    `passed_over` says why it does not run in the service that it names.
    """

    task: str
    argv: tuple[str, ...]
    command: str
    folder: Path
    service: str | None
    passed_over: str | None
    confirm: str | None
    needs: tuple[str, ...]
    overlay: str | None
    root: Path
    files: tuple[Path, ...]
    digest: str
    variables: tuple[Variable, ...]
    settings: tuple[Setting, ...]


def make_plan(request: Request, invocation: Invocation, environ: Mapping[str, str]) -> Plan:
    """Describe the program to run and the source of each part of it."""
    manifest = request.project.manifest
    return Plan(
        task=" ".join(invocation.task),
        argv=invocation.argv,
        command=shlex.join(invocation.argv),
        folder=Path(os.path.normpath(invocation.folder)),
        service=invocation.service,
        passed_over=invocation.passed_over and invocation.passed_over.reason,
        confirm=invocation.confirm,
        needs=tuple(" ".join(each.names) for each in needed_by(request)),
        overlay=request.project.stored.environment,
        root=manifest.root,
        files=manifest.files,
        digest=invocation.digest,
        variables=_variables(manifest, invocation, environ),
        settings=settings_of(manifest, task_path(invocation.task)),
    )


def settings_of(manifest: Manifest, path: tuple[str, ...]) -> tuple[Setting, ...]:
    """Return every value below a path of the manifest with its origin."""
    node = lookup(manifest.table, path)
    if not isinstance(node, Table):
        return ()
    return tuple(
        Setting(
            key=".".join(inner),
            value=shown(leaf),
            file=str(manifest.root / leaf.place.file),
            line=leaf.place.line,
        )
        for inner, leaf in leaves(node)
    )


def shown(node: Node) -> str:
    """Return a value as one line of YAML.

    Example:
        >>> from fdl_cli.manifest.reading.document import Leaf
        >>> shown(Leaf(("python", "-c", "1"), ("python", "-c", "1"), Place("fdl.yml", 1, 1)))
        '[python, -c, "1"]'
    """
    if isinstance(node, Table):
        inner = ", ".join(f"{name}: {shown(item)}" for name, item in node.entries.items())
        return f"{{{inner}}}"
    if isinstance(node.value, tuple):
        pairs = zip(node.value, node.text, strict=True)
        return f"[{', '.join(_scalar(value, text) for value, text in pairs)}]"
    return _scalar(node.value, str(node.text))


def _scalar(value: object, text: str) -> str:
    if not isinstance(value, str):
        return text if value is not None else "null"
    if _PLAIN.fullmatch(text) and text.lower() not in _SPECIAL:
        return text
    return json.dumps(text, ensure_ascii=False)


def _variables(
    manifest: Manifest, invocation: Invocation, environ: Mapping[str, str]
) -> tuple[Variable, ...]:
    found = []
    for change in invocation.changes:
        place = _place(manifest, change.reason)
        found.append(
            Variable(
                name=change.name,
                value=change.value,
                before=environ.get(change.name),
                reason=change.reason if place is None else "the manifest",
                file=None if place is None else str(manifest.root / place.file),
                line=None if place is None else place.line,
            )
        )
    return tuple(found)


def _place(manifest: Manifest, reason: str) -> Place | None:
    node: Node | None = manifest.table
    rest = reason
    # Names of tasks may hold dots, so the longest name that fits is taken at each step.
    while rest and isinstance(node, Table):
        fitting = [n for n in node.entries if rest == n or rest.startswith(f"{n}.")]
        if not fitting:
            return None
        name = max(fitting, key=len)
        node, rest = node.entries[name], rest[len(name) + 1 :]
    return node.place if node is not None and node is not manifest.table else None
