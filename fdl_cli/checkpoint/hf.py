"""Folders of transformers for `fdl checkpoint convert`, `export` and `verify-export`, checked without torch.

`bert/config.json` and `bert/model.safetensors`, or the shards that `model.safetensors.index.json` lists.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.checkpoint.child import answer_of
from fdl_cli.checkpoint.migration import Renamed
from fdl_cli.checkpoint.model import CheckpointFile, damaged
from fdl_cli.checkpoint.reader import open_checkpoint, problems
from fdl_cli.errors import (
    ConflictError,
    EnvironmentLackingError,
    FdlError,
    NotFoundError,
    OperationFailedError,
)
from fdl_cli.system.user_python import UserPython, require_torch

CONFIG: Final = "config.json"
_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
# All that processors and tokenizers of transformers write: the rest of a folder may be anything.
_BESIDE: Final = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model",
    "*preprocessor_config.json", "processor_config.json", "chat_template.*",
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The names in which a file and a class differ."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    other_shape: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was written, and the names that changed on the way."""

    target: Path
    architecture: str
    tensors: int
    renamed: tuple[Renamed, ...]
    dropped: tuple[str, ...]
    copied: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCheck:
    """How a folder and a checkpoint differ; `difference` is None if there was nothing to compare."""

    architecture: str
    loaded_by: str
    outputs: int
    equal: bool
    difference: float | None
    folder: Keys
    checkpoint: Keys


def convert(
    folder: Path, target: Path, python: UserPython, *, allow_unexpected: bool, force: bool
) -> Exchange:
    """Write the weights of a folder as a checkpoint.

    Raises:
        NotFoundError: the folder lacks a file.
        ConflictError: the target exists.
        EnvironmentLackingError: the Python has no torch, or no transformers.
        OperationFailedError: a file is damaged, or the weights do not fit the class.
    """
    config, files = config_of(folder), weights_of(folder)
    if target.exists() and not force:
        raise _exists(target)
    request = {
        "do": "convert",
        "config": str(config),
        "files": [str(each) for each in files],
        "target": str(target),
        "allow_unexpected": allow_unexpected,
    }
    return _exchange(target, _asked(python, request, "conversion"))


def export(
    source: Path,
    config: Path | None,
    target: Path,
    python: UserPython,
    *,
    allow_unexpected: bool,
    force: bool,
) -> Exchange:
    """Write a checkpoint as a folder of transformers, with the tokenizer that lies beside the configuration.

    Raises:
        NotFoundError: there is no such file, or no configuration.
        ConflictError: the target exists.
        EnvironmentLackingError: the Python has no torch, or no transformers.
        OperationFailedError: a file is damaged, or the weights do not fit the class.
    """
    stored = _sound(source).metadata.get("fdl.config")
    if target.exists() and not (target.is_dir() and (force or not any(target.iterdir()))):
        raise _exists(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        work, kept = Path(name) / "made", Path(name) / CONFIG
        work.mkdir()
        if config is None:
            kept.write_text(_stored_config(source, stored), encoding="utf-8")
        request = {
            "do": "export",
            "source": str(source),
            "config": str(kept if config is None else config_of(config)),
            "target": str(work),
            "allow_unexpected": allow_unexpected,
        }
        fields = _asked(python, request, "export")
        copied = () if config is None else _copy_beside(config, work)
        target.mkdir(exist_ok=True)
        # Weights of an earlier export would be loaded in place of new ones.
        for pattern in ("model*.safetensors", _INDEX):
            for each in target.glob(pattern):
                each.unlink()
        for each in work.iterdir():
            each.replace(target / each.name)
    return _exchange(target, fields, copied)


def verify_export(source: Path, folder: Path, python: UserPython) -> ExportCheck:
    """Compare what a checkpoint and a folder compute.

    Raises:
        NotFoundError: there is no such file, or the folder lacks one.
        EnvironmentLackingError: the Python has no torch, or no transformers.
        OperationFailedError: a file is damaged.
    """
    _sound(source)
    config_of(folder)
    weights_of(folder)
    request = {"do": "verify", "source": str(source), "folder": str(folder)}
    fields = _asked(python, request, "comparison")
    return ExportCheck(
        architecture=fields["architecture"],
        loaded_by=fields["loaded_by"],
        outputs=fields["outputs"],
        equal=fields["equal"],
        difference=fields["difference"],
        folder=_keys(fields["folder"]),
        checkpoint=_keys(fields["checkpoint"]),
    )


def _sound(path: Path) -> CheckpointFile:
    """Return a file of which every byte was compared with its checksum."""
    file = open_checkpoint(path)
    for problem in problems(file):
        raise damaged(path, problem)
    return file


# ---- folders ---------------------------------------------------------------------------------------


def config_of(place: Path) -> Path:
    """Return the path of a configuration, which may be given by its folder.

    Raises:
        NotFoundError: there is none.
        OperationFailedError: it is not a table of JSON.
    """
    if not place.exists():
        raise NotFoundError(
            error_id="hf-folder-missing",
            message=f"there is no folder {place}",
            hint="give a folder that `model.save_pretrained(FOLDER)` of transformers wrote",
            file=str(place),
        )
    path = place / CONFIG if place.is_dir() else place
    if not path.is_file():
        raise NotFoundError(
            error_id="hf-config-missing",
            message=f"{place} has no {CONFIG}, which names the class of the model",
            hint="write it with `model.config.save_pretrained(FOLDER)`, or copy it from the model's page",
            file=str(path),
        )
    _table(path)
    return path


def weights_of(folder: Path) -> tuple[Path, ...]:
    """Return the files of the weights, after a check of their headers.

    Raises:
        NotFoundError: there are none, or a shard is missing.
        OperationFailedError: one is damaged.
    """
    if (folder / _WEIGHTS).is_file():
        open_checkpoint(folder / _WEIGHTS)
        return (folder / _WEIGHTS,)
    index = folder / _INDEX
    if not index.is_file():
        raise NotFoundError(
            error_id="hf-weights-missing",
            message=f"{folder} has neither {_WEIGHTS} nor {_INDEX}",
            hint="write them with `model.save_pretrained(FOLDER)`; files of torch.save are not read",
            file=str(folder),
        )
    places = _table(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(map(_is_name, places.values())):
        raise damaged(index, "weight_map is not a table of file names")
    files = tuple(folder / each for each in dict.fromkeys(places.values()))
    for path in files:
        if not path.is_file():
            raise NotFoundError(
                error_id="hf-shard-missing",
                message=f"{index} lists {path.name}, which is not in {folder}",
                hint=f"copy {path.name} there again; the model has {len(files)} such files",
                file=str(path),
            )
        stored = {each.name for each in open_checkpoint(path).tensors}
        lost = [name for name, file in places.items() if file == path.name and name not in stored]
        if lost:
            raise damaged(path, f"{_INDEX} says that it has {lost[0]!r}, and it has not")
    return files


def _is_name(text: object) -> bool:
    return isinstance(text, str) and Path(text).name == text


def _table(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise damaged(path, f"it is not JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise damaged(path, "it is not a table of settings")
    return found


def _stored_config(source: Path, text: str | None) -> str:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if text is None or not isinstance(found, dict) or "model_type" not in found:
        raise NotFoundError(
            error_id="hf-config-missing",
            message=f"{source} holds no {CONFIG} of transformers",
            hint=f"name one, or its folder: `--config FOLDER/{CONFIG}`",
            file=str(source),
        )
    return text


def _copy_beside(config: Path, target: Path) -> tuple[str, ...]:
    if not config.is_dir():
        return ()
    found = {each for pattern in _BESIDE for each in config.glob(pattern) if each.is_file()}
    for each in sorted(found):
        shutil.copyfile(each, target / each.name)
    return tuple(sorted(each.name for each in found))


# ---- the other process -----------------------------------------------------------------------------


def _asked(python: UserPython, request: Mapping[str, object], purpose: str) -> dict[str, Any]:
    require_torch(python, f"the {purpose}")
    fields = answer_of(python, "flodl.hf", request, purpose=purpose)
    if "error" in fields:
        raise _error_of(python, fields)
    return fields


def _error_of(python: UserPython, fields: Mapping[str, Any]) -> FdlError:
    if fields["kind"] == "transformers-missing":
        return EnvironmentLackingError(
            error_id="transformers-missing",
            message=f"`{python.interpreter}` ({python.why}) has no transformers, which builds the model",
            hint=f"type `{python.interpreter} -m {fields['error']}`, or name another with `--python`",
        )
    message = "\n".join([fields["error"], *(f"  {each}" for each in fields["differences"])])
    if fields["kind"] == "misfit":
        hint = (
            'name another class in "architectures" of config.json; --allow-unexpected drops names that it '
            "does not have"
        )
        return OperationFailedError(error_id="hf-weights-misfit", message=message, hint=hint)
    if fields["kind"] == "checkpoint":
        return OperationFailedError(
            error_id="hf-not-written",
            message=message,
            hint="check what it names; -o takes another place, with a folder that exists",
        )
    return OperationFailedError(
        error_id="hf-class-unusable",
        message=message,
        hint=f"look at config.json; `{python.interpreter} -m pip show transformers` shows the version",
    )


def _exists(target: Path) -> ConflictError:
    return ConflictError(
        error_id="checkpoint-exists",
        message=f"{target} exists",
        hint="choose another place with -o, or overwrite it with --force",
        file=str(target),
    )


def _exchange(target: Path, fields: Mapping[str, Any], copied: tuple[str, ...] = ()) -> Exchange:
    return Exchange(
        target=target,
        architecture=fields["architecture"],
        tensors=fields["tensors"],
        renamed=tuple(Renamed(old=old, new=new) for old, new in fields["renamed"]),
        dropped=tuple(fields["dropped"]),
        copied=copied,
    )


def _keys(fields: Mapping[str, list[str]]) -> Keys:
    return Keys(
        missing=tuple(fields["missing"]),
        unexpected=tuple(fields["unexpected"]),
        other_shape=tuple(fields["other_shape"]),
    )
