"""Saving and loading the weights of a module; nothing changes in it before everything was checked once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, final

import torch
from torch import Tensor, nn

from flodl.checkpoint import sound
from flodl.checkpoint.commit import commit
from flodl.checkpoint.contents import AbstractContents, Source, open_contents, stored_table
from flodl.checkpoint.format import NO_SUM, VERSION, Entry, checksums, encode_header
from flodl.checkpoint.tensors import as_bytes, dtype_code, memory_of, on_host
from flodl.checkpoint.topology import topology_of, unwrapped
from flodl.errors import CheckpointError
from flodl.ir.hashing import Topology, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Target: TypeAlias = "str | Path | BinaryIO"
Tensors: TypeAlias = "nn.Module | Mapping[str, Tensor]"
_SHOWN: Final = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """Report of loading: every name is in exactly one of `loaded`, `skipped` and `missing`.

    Attributes:
        loaded: names of the model that got values.
        skipped: names in the file that the model does not have.
        missing: names of the model that the file does not have.
        converted: those of `loaded` whose dtype differed.
        sealed: whether checksums covered every byte; False for files of other programs.
        architecture: whether the architecture in the file was there to be compared.
        version: version of the file format, 0 for files of other programs.
    """

    loaded: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]
    converted: tuple[str, ...] = ()
    sealed: bool = True
    architecture: bool = True
    version: int = VERSION

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} loaded"]
        for word, names in (("skipped", self.skipped), ("missing", self.missing)):
            if names:
                shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
                parts.append(f"{len(names)} {word} ({shown})")
        return ", ".join(parts)


# ---- names ---------------------------------------------------------------


def tensors_of(source: Tensors) -> dict[str, Tensor]:
    """Return the tensors of a module by their `state_dict` names, or those of a mapping.

    Raises:
        CheckpointError: the module's state holds something that is no tensor.
    """
    if not isinstance(source, nn.Module):
        return dict(source)
    state = unwrapped(source).state_dict(keep_vars=True)
    for name, each in state.items():
        if not isinstance(each, Tensor):
            raise CheckpointError(
                f"{name!r} in the state of {type(source).__name__} is a {type(each).__name__}, not a "
                "tensor; return a tensor from get_extra_state"
            )
    return dict(state)


def _tied(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return names whose values are, bit for bit, the memory of an earlier name."""
    first: dict[object, str] = {}
    tied = {}
    for name, each in tensors.items():
        place = memory_of(each)
        if place is None:
            continue
        if place in first:
            tied[name] = first[place]
        else:
            first[place] = name
    return tied


# ---- saving ----------------------------------------------------------------------------------------


def save(
    module: nn.Module,
    target: Target,
    *,
    config: str | None = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Save parameters, buffers and architecture of a module.

    Args:
        module: any module; for a graph the wiring is stored, too.
        target: a path, compressed if it ends in `.gz`, or a binary stream.  Files are replaced in one
            step: whatever fails, the old or the new one is there.
        config: text to keep with the weights, such as the settings that made the model.
        notes: further texts, by keys of your own.

    Raises:
        CheckpointError: a tensor has no form in the file, or the file cannot be written.

    Example:
        >>> import io
        >>> stream = io.BytesIO()
        >>> save(nn.Linear(2, 2), stream)
        >>> str(load(nn.Linear(2, 2), io.BytesIO(stream.getvalue())))
        '2 loaded'
    """
    topology = topology_of(module)
    metadata = {
        **(notes or {}),
        "fdl.structural_hash": topology.hash(),
        "fdl.topology": topology.to_json(),
    }
    if config is not None:
        metadata["fdl.config"] = config
    write(target, tensors_of(module), metadata)


def save_checkpoint(target: Target, tensors: Tensors, *, config: str | None = None) -> None:
    """Save a module, or bare tensors by name, to a path or a stream."""
    if isinstance(tensors, nn.Module):
        save(tensors, target, config=config)
    else:
        write(target, tensors, {} if config is None else {"fdl.config": config})


def write(
    target: Target, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], kind: str = "model"
) -> None:
    """Write tensors and texts as one sealed file.

    Raises:
        CheckpointError: a tensor has no form in the file, or the file cannot be written.
    """
    codes = {name: dtype_code(name, each) for name, each in tensors.items()}
    tied = _tied(tensors)
    kept = {name: each for name, each in tensors.items() if name not in tied}
    # Large items first: every tensor is aligned to its item size without gaps.
    order = sorted(kept, key=lambda name: -kept[name].element_size())
    held = {name: on_host(kept[name]) for name in order}
    entries = tuple(_entries(held, codes))
    facts = {
        "format": "pt",
        **metadata,
        "fdl.version": str(VERSION),
        "fdl.kind": kind,
        "fdl.created": datetime.now(UTC).isoformat(timespec="seconds"),
        "fdl.torch": torch.__version__,
    }
    if tied:
        facts["fdl.tied"] = json.dumps(tied)

    def header(sums: Sequence[str]) -> bytes:
        table = json.dumps(dict(zip(held, sums, strict=True)))
        return encode_header(entries, {**facts, "fdl.checksums": table})

    data = [as_bytes(each) for each in held.values()]
    if not isinstance(target, str | Path):
        _in_order(target, header, data)
    elif str(target).endswith(".gz"):
        commit(Path(target), lambda stream: _in_order(stream, header, data))
    else:
        sound.remember(commit(Path(target), lambda stream: _data_first(stream, header, data)))


def _in_order(
    stream: BinaryIO, header: Callable[[Sequence[str]], bytes], data: Sequence[memoryview]
) -> None:
    stream.write(header(checksums(data)))
    stream.writelines(data)


def _data_first(
    stream: BinaryIO, header: Callable[[Sequence[str]], bytes], data: Sequence[memoryview]
) -> None:
    """Hash on another core while the file system takes the data; the header comes last, to its place."""
    with ThreadPoolExecutor(1) as pool:
        sums = pool.submit(checksums, data)
        stream.seek(len(header([NO_SUM] * len(data))))  # every checksum has the same length
        stream.writelines(data)
        found = header(sums.result())
    stream.seek(0)
    stream.write(found)


def _entries(held: Mapping[str, Tensor], codes: Mapping[str, str]) -> Iterable[Entry]:
    place = 0
    for name, each in held.items():
        end = place + each.numel() * each.element_size()
        yield Entry(name=name, dtype=codes[name], shape=tuple(each.shape), start=place, end=end)
        place = end


# ---- loading ---------------------------------------------------------------------------------------


def load(
    module: nn.Module,
    source: Source,
    *,
    prefix: str = "",
    rename: Mapping[str, str] | None = None,
    strict_hash: bool = True,
    part: str = "",
) -> LoadReport:
    """Load weights into a module by name.

    The whole file is checked before the first value changes, or as values are copied if this process wrote
    or checked it before.  Dtypes become the model's, devices stay.  Names on one side only are reported.

    Args:
        module: the module to load into.
        source: a path or stream: `.fdl` of any version, safetensors, or the weights of `torch.save`.
        prefix: load only what is below this name in the file, such as `"encoder"`.
        rename: names of the file to those of the model, if they differ.
        strict_hash: whether another architecture is an error.
        part: the dotted name of a part to load into, such as `"encoder.layer.0"`; the file is that of the
            part alone.

    Raises:
        CheckpointError: the file is damaged, its architecture differs, a shape does, or no name matches; or
            there is no such part.
    """
    module = _part_of(module, part) if part else module
    contents = open_contents(source)
    if not strict_hash or prefix or rename:
        return _load(contents, tensors_of(module), prefix, rename or {}, compared=False)
    prepared = prepare_load(module, contents)
    prepared.copy()
    return prepared.report


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLoad:
    """A file that was checked and fits; `copy` changes the model, and until then nothing has."""

    report: LoadReport
    copy: Callable[[], None]


def prepare_load(module: nn.Module, contents: AbstractContents) -> PreparedLoad:
    """Check that an opened file of the same architecture can be loaded into a module.

    Raises:
        CheckpointError: the file is damaged, its architecture differs, a shape does, or no name matches.
    """
    compared = _compare(contents, module)
    return _prepare(contents, tensors_of(module), "", {}, compared=compared)


def load_checkpoint(
    source: Source,
    tensors: Tensors,
    *,
    prefix: str = "",
    rename: Mapping[str, str] | None = None,
    strict_hash: bool = True,
    part: str = "",
) -> LoadReport:
    """Load from a path or stream into a module or the part at a path, or into bare tensors by name.

    Raises:
        CheckpointError: what `load` raises, or a part of bare tensors is asked for.
    """
    if isinstance(tensors, nn.Module):
        return load(
            tensors, source, prefix=prefix, rename=rename, strict_hash=strict_hash, part=part
        )
    if part:
        raise CheckpointError(f"bare tensors have no part {part!r}: give the module")
    return _load(open_contents(source), dict(tensors), prefix, rename or {}, compared=False)


def load_named(
    tensors: Mapping[str, Tensor], contents: AbstractContents, *, compared: bool = False
) -> LoadReport:
    """Load an opened file into bare tensors by name; `compared` is for the report.

    Raises:
        CheckpointError: the file is damaged, a shape differs, or no name matches.
    """
    return _load(contents, dict(tensors), "", {}, compared=compared)


def _compare(contents: AbstractContents, module: nn.Module) -> bool:
    text = contents.metadata.get("fdl.topology")
    if text is None:
        return False
    current = topology_of(module)
    if contents.metadata.get("fdl.structural_hash") == current.hash():
        return True
    try:
        found = differences(Topology.from_json(text), current)
    except ValueError as error:
        raise CheckpointError(
            f"fdl.topology is not readable: {error}", path=contents.path
        ) from error
    if found:
        raise CheckpointError(
            f"the file was saved from another architecture than this {type(module).__name__}; load parts "
            "with strict_hash=False, or fit names with `fdl checkpoint migrate`",
            path=contents.path,
            differences=found,
        )
    return True


def _wanted(contents: AbstractContents, prefix: str, rename: Mapping[str, str]) -> dict[str, str]:
    """Return names for the model -> names in the file."""
    dot = f"{prefix}." if prefix and not prefix.endswith(".") else prefix
    names = [each.name for each in contents.entries()]
    names += stored_table(contents.metadata, "fdl.tied", contents.path)
    names = [name for name in names if name.startswith(dot) and not name.startswith("train/")]
    if prefix and not names:
        raise CheckpointError(f"nothing in the file is below {prefix!r}", path=contents.path)
    unknown = sorted(set(rename) - set(names))
    if unknown:
        raise CheckpointError(f"rename: the file has no {', '.join(unknown)}", path=contents.path)
    wanted: dict[str, str] = {}
    for name in names:
        new = rename.get(name, name.removeprefix(dot))
        if new in wanted:
            raise CheckpointError(
                f"{wanted[new]!r} and {name!r} would both become {new!r}", path=contents.path
            )
        wanted[new] = name
    return wanted


def _load(
    contents: AbstractContents,
    targets: dict[str, Tensor],
    prefix: str,
    rename: Mapping[str, str],
    *,
    compared: bool,
) -> LoadReport:
    prepared = _prepare(contents, targets, prefix, rename, compared=compared)
    prepared.copy()
    return prepared.report


def _prepare(
    contents: AbstractContents,
    targets: dict[str, Tensor],
    prefix: str,
    rename: Mapping[str, str],
    *,
    compared: bool,
) -> PreparedLoad:
    wanted = _wanted(contents, prefix, rename)
    _require_match(contents.path, wanted, targets)
    contents.prepare_copy()
    places = _places(contents, {new: old for new, old in wanted.items() if new in targets})
    values = {name: contents.tensor(place) for name, place in places.items()}
    loaded = tuple(name for name in targets if name in wanted)
    _require_shapes(contents.path, {name: (values[name], targets[name]) for name in loaded})
    report = LoadReport(
        loaded=loaded,
        skipped=tuple(old for new, old in wanted.items() if new not in targets),
        missing=tuple(name for name in targets if name not in wanted),
        converted=tuple(name for name in loaded if values[name].dtype != targets[name].dtype),
        sealed=contents.sealed,
        architecture=compared,
        version=contents.version,
    )
    pairs = [(places[name], targets[name]) for name in loaded]
    return PreparedLoad(report=report, copy=lambda: contents.copy_to(pairs))


def read_tensors(contents: AbstractContents, wanted: Mapping[str, str]) -> dict[str, Tensor]:
    """Return tensors under new names; they share memory with the file.

    Raises:
        CheckpointError: a tied name leads nowhere.
    """
    return {name: contents.tensor(place) for name, place in _places(contents, wanted).items()}


def _places(contents: AbstractContents, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return new names -> names that have bytes in the file."""
    tied = stored_table(contents.metadata, "fdl.tied", contents.path)
    stored = {each.name for each in contents.entries()}
    places = {}
    for new, old in wanted.items():
        place = old if old in stored else tied.get(old, old)
        if place not in stored:
            raise CheckpointError(
                f"{old!r} is tied to {place!r}, which is not there", path=contents.path
            )
        places[new] = place
    return places


def _require_match(
    path: str | None, wanted: Mapping[str, str], targets: Mapping[str, Tensor]
) -> None:
    """Refuse a load that would change nothing: the model would train on from its random values."""
    if wanted.keys() & targets.keys() or not (wanted or targets):
        return
    raise CheckpointError(
        "no name of the file is a name of the model, so nothing would be loaded; prefix= takes what is below "
        "a name of the file, rename= gives single names, and load_subgraph loads into a part",
        path=path,
        differences=(
            f"the file has {_some(tuple(wanted.values()))}",
            f"the model has {_some(tuple(targets))}",
        ),
    )


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} names ({shown})" if names else "no names"


def _require_shapes(path: str | None, pairs: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    wrong = tuple(
        f"{name}: shape {list(value.shape)} in the file, {list(target.shape)} in the model"
        for name, (value, target) in pairs.items()
        if value.shape != target.shape
    )
    if wrong:
        raise CheckpointError(
            "tensors of the same name have other shapes; rename them, or remove them with "
            "`fdl checkpoint migrate`",
            path=path,
            differences=wrong,
        )


def load_subgraph(
    module: nn.Module, path: str, source: Source, *, strict_hash: bool = True
) -> LoadReport:
    """Load a checkpoint that was saved from a part into that part of a larger model.

    Args:
        module: the larger model.
        path: the dotted name of the part in it.
        source: the file; its names and architecture are those of the part alone.
        strict_hash: as for `load`.

    Raises:
        CheckpointError: there is no such part, or what `load` raises.
    """
    return load(_part_of(module, path), source, strict_hash=strict_hash)


def _part_of(module: nn.Module, path: str) -> nn.Module:
    try:
        return unwrapped(module).get_submodule(path)
    except AttributeError as error:
        raise CheckpointError(f"{type(module).__name__} has no part {path!r}") from error
