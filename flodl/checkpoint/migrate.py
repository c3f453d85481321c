"""Fitting a checkpoint to a model whose names have changed, without ever guessing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from torch import Tensor, nn

from flodl.checkpoint.contents import Source, open_contents, stored_table
from flodl.checkpoint.store import Target, Tensors, read_tensors, tensors_of, write
from flodl.checkpoint.tensors import CODES
from flodl.checkpoint.topology import topology_of
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

_Form: TypeAlias = "tuple[str, tuple[int, ...]]"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateReport:
    """The fate of every tensor; `str()` lists it.

    Attributes:
        unchanged: names that are the same in file and model.
        remapped: (old, new) names.
        dropped: names in the file that the model has no place for.
        missing: names in the model that the file has nothing for.
    """

    unchanged: tuple[str, ...]
    remapped: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    missing: tuple[str, ...]

    def is_complete(self) -> bool:
        """Return whether nothing was dropped and nothing is missing."""
        return not self.dropped and not self.missing

    def __str__(self) -> str:
        groups: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("unchanged", self.unchanged),
            ("remapped", tuple(f"{old} -> {new}" for old, new in self.remapped)),
            ("dropped", self.dropped),
            ("missing", self.missing),
        )
        lines = []
        for word, names in groups:
            lines.append(f"{word}: {len(names)}")
            lines += [f"  {name}" for name in names]
        return "\n".join(lines)


def match_names(
    file: Mapping[str, _Form],
    model: Mapping[str, _Form],
    rename: Mapping[str, str],
    *,
    in_order: bool,
) -> dict[str, str]:
    """Return new name -> old name, for every name of the model that the file has values for.

    First come the given names, then equal names of equal shape, then what is left when its shape and
    dtype occur exactly once on each side.

    Args:
        file: dtype and shape by name, in the order of the file.
        model: the same of the model.
        rename: old names to new ones, decided by the caller.
        in_order: whether several tensors of one shape may be matched in the order in which they come.

    Raises:
        CheckpointError: several matches are possible, or `rename` names what is not there.
    """
    _check_rename(file, model, rename)
    matched = {new: old for old, new in rename.items()}
    for name, form in model.items():
        if name not in matched and name not in rename and file.get(name) == form:
            matched[name] = name
    _match_by_form(file, model, matched, in_order=in_order)
    return matched


def _match_by_form(
    file: Mapping[str, _Form],
    model: Mapping[str, _Form],
    matched: dict[str, str],
    *,
    in_order: bool,
) -> None:
    used = set(matched.values())
    places = _by_form(model, matched)
    candidates = _by_form(file, used)
    ambiguous: list[str] = []
    for form, names in places.items():
        found = candidates[form]
        if (len(names) == 1 and len(found) == 1) or in_order:
            matched.update(zip(names, found, strict=False))
        elif found:
            shown = f"{form[0]} {list(form[1])}"
            ambiguous.append(
                f"{shown}: {', '.join(found)} could each be any of {', '.join(names)}"
            )
    if ambiguous:
        raise CheckpointError(
            "several tensors have the same shape, and swapping two of them would not be noticed; say which "
            "is which with rename={old: new}, or in_order=True to match them in the order listed",
            differences=tuple(ambiguous),
        )


def _by_form(forms: Mapping[str, _Form], done: Container[str]) -> defaultdict[_Form, list[str]]:
    found: defaultdict[_Form, list[str]] = defaultdict(list)
    for name, form in forms.items():
        if name not in done:
            found[form].append(name)
    return found


def _check_rename(
    file: Mapping[str, _Form], model: Mapping[str, _Form], rename: Mapping[str, str]
) -> None:
    wrong = [f"{old!r} is not in the file" for old in rename if old not in file]
    wrong += [f"{new!r} is not in the model" for new in rename.values() if new not in model]
    wrong += [
        f"{old} has {file[old]}, {new} has {model[new]}"
        for old, new in rename.items()
        if old in file and new in model and file[old][1] != model[new][1]
    ]
    if len(set(rename.values())) < len(rename):
        wrong.append("two names are mapped to the same one")
    if wrong:
        raise CheckpointError("the names given do not fit", differences=tuple(wrong))


def migrate_checkpoint(
    source: Source,
    target: Target,
    tensors: Tensors,
    *,
    rename: Mapping[str, str] | None = None,
    in_order: bool = False,
    architecture: Mapping[str, str] | None = None,
) -> MigrateReport:
    """Write a copy of a checkpoint with the names of a model.

    Args:
        source: any file that `load` reads; it is not changed.
        target: the new file or stream.
        tensors: the model, or its tensors by name.
        rename: old names to new ones, where they cannot be told from shapes.
        in_order: match several tensors of one shape in the order in which they come.
        architecture: the stored hash and topology of the model, where only its tensors are given.

    Raises:
        CheckpointError: the match is ambiguous, a file is damaged, or both are the same file.
    """
    _require_two(source, target)
    wanted = tensors_of(tensors)
    contents = open_contents(source)
    contents.require_sound()
    file: dict[str, _Form] = {
        each.name: (each.dtype, each.shape)
        for each in contents.entries()
        if not each.name.startswith("train/")
    }
    for alias, name in stored_table(contents.metadata, "fdl.tied", contents.path).items():
        if name in file:
            file[alias] = file[name]
    model: dict[str, _Form] = {name: _form(each) for name, each in wanted.items()}
    matched = match_names(file, model, rename or {}, in_order=in_order)
    values = read_tensors(contents, {name: matched[name] for name in wanted if name in matched})
    metadata = {key: text for key, text in contents.metadata.items() if not key.startswith("fdl.")}
    if "fdl.config" in contents.metadata:
        metadata["fdl.config"] = contents.metadata["fdl.config"]
    metadata.update(architecture or {})
    if isinstance(tensors, nn.Module):
        topology = topology_of(tensors)
        metadata["fdl.structural_hash"] = topology.hash()
        metadata["fdl.topology"] = topology.to_json()
    write(target, values, metadata)
    used = set(matched.values())
    return MigrateReport(
        unchanged=tuple(new for new, old in matched.items() if new == old),
        remapped=tuple((old, new) for new, old in matched.items() if new != old),
        dropped=tuple(name for name in file if name not in used),
        missing=tuple(name for name in wanted if name not in matched),
    )


def _form(tensor: Tensor) -> _Form:
    return CODES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape)


def _require_two(source: Source, target: Target) -> None:
    if not isinstance(source, str | Path) or not isinstance(target, str | Path):
        return
    if Path(source).resolve() == Path(target).resolve():
        raise CheckpointError(
            "source and target are the same file; write to a new one", path=str(source)
        )
