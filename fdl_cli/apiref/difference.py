"""Comparison of two versions of the reference: names that appeared, vanished or changed signature."""

from dataclasses import dataclass
from typing import Literal, final

from fdl_cli.apiref.model import ApiIndex

ChangeKind = Literal["added", "removed", "signature"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference; `breaking` is true when code written for the old version may fail."""

    name: str
    kind: ChangeKind
    before: str
    after: str
    breaking: bool


def compare(old: ApiIndex, new: ApiIndex) -> tuple[Change, ...]:
    """Return the changes from one version to another, by name."""
    before = {entry.name: entry.signature for entry in old.entries}
    after = {entry.name: entry.signature for entry in new.entries}
    changes = []
    for name in sorted(before.keys() | after.keys()):
        left, right = before.get(name), after.get(name)
        if left == right:
            continue
        kind: ChangeKind = "signature"
        if left is None:
            kind = "added"
        elif right is None:
            kind = "removed"
        changes.append(
            Change(
                name=name,
                kind=kind,
                before=left or "",
                after=right or "",
                # A changed signature is reported as breaking: that it is not cannot be read off it.
                breaking=kind != "added",
            )
        )
    return tuple(changes)


def change_lines(change: Change) -> str:
    """Return one change as lines of a diff."""
    lines = [f"{change.kind}: {change.name}"]
    lines += [f"- {line}" for line in change.before.splitlines()]
    lines += [f"+ {line}" for line in change.after.splitlines()]
    return "\n".join(lines)
