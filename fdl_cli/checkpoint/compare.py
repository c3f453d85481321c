"""Differences between two checkpoint files: names, shapes, values and architecture."""

import json
from dataclasses import dataclass
from typing import Any, final

from fdl_cli.checkpoint.model import CheckpointFile, damaged


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeChange:
    """A tensor of one name that is of another shape or dtype in the second file."""

    name: str
    first: str
    second: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """Differences; everything empty means that both files hold the same model with the same values."""

    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    changed_form: tuple[ShapeChange, ...]
    changed_values: tuple[str, ...]
    architecture: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Return whether nothing differs."""
        return not (
            self.only_first
            or self.only_second
            or self.changed_form
            or self.changed_values
            or self.architecture
        )


def compare(first: CheckpointFile, second: CheckpointFile) -> FileDifference:
    """Compare two files."""
    one = {each.name: each for each in first.tensors}
    two = {each.name: each for each in second.tensors}
    forms = {
        name: (f"{a.dtype} {list(a.shape)}", f"{two[name].dtype} {list(two[name].shape)}")
        for name, a in one.items()
        if name in two
    }
    return FileDifference(
        only_first=tuple(name for name in one if name not in two),
        only_second=tuple(name for name in two if name not in one),
        changed_form=tuple(
            ShapeChange(name=name, first=a, second=b) for name, (a, b) in forms.items() if a != b
        ),
        changed_values=tuple(
            name
            for name, (a, b) in forms.items()
            if a == b and first.content(one[name]) != second.content(two[name])
        ),
        architecture=_architecture(first, second),
    )


def _architecture(first: CheckpointFile, second: CheckpointFile) -> tuple[str, ...]:
    one, two = _modules(first), _modules(second)
    if not one or not two:
        return ()
    lines = [
        f"- {path or '(model)'}: {_call(each)}" for path, each in one.items() if path not in two
    ]
    lines += [
        f"+ {path or '(model)'}: {_call(each)}" for path, each in two.items() if path not in one
    ]
    for path, each in one.items():
        if path in two and _call(each) != _call(two[path]):
            lines.append(f"~ {path or '(model)'}: {_call(each)} -> {_call(two[path])}")
        elif (
            path in two
            and each["flow"] != two[path]["flow"]
            and each["flow"]
            and two[path]["flow"]
        ):
            lines.append(f"~ {path or '(model)'}: the flow differs")
    return tuple(lines)


def _call(module: dict[str, Any]) -> str:
    return f"{module['kind']}({module['settings']})"


def _modules(file: CheckpointFile) -> dict[str, dict[str, Any]]:
    text = file.metadata.get("fdl.topology")
    if text is None:
        return {}
    try:
        modules = {str(each["path"]): each for each in json.loads(text)}
        for each in modules.values():
            _call(each), each["flow"]
    except (ValueError, KeyError, TypeError) as problem:
        raise damaged(file.path, "fdl.topology is not readable") from problem
    return modules
