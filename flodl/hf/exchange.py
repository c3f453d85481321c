"""Checkpoints of flodl from folders of transformers, folders from checkpoints, and their comparison.

`bert.embeddings.LayerNorm.gamma` in `model.safetensors` -> `bert.embeddings.LayerNorm.weight` in `bert.fdl`.
A name counts only if the class of `config.json` has it; what it lacks, or has in another shape, is an error.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flodl.checkpoint.contents import AbstractContents, open_contents, stored_table
from flodl.checkpoint.store import read_tensors, write
from flodl.errors import CheckpointError
from flodl.hf.cache import HuggingFaceError
from flodl.hf.sound import sound_inputs

# The names of old BERT files -> those of today.
_FORMER = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
_LENGTH = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLists:
    """The names in which a file and a model differ."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    other_shape: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return each name with its list."""
        lists = (
            ("missing", self.missing),
            ("unexpected", self.unexpected),
            ("other shape", self.other_shape),
        )
        return tuple(f"{word}: {name}" for word, names in lists for name in names)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The values of a file by the names of a model, and how the names came about.

    Attributes:
        values: a tensor for each name of the model's state that the file has.
        renamed: (old, new) names.
        dropped: names that the model computes itself, or that transformers ignores.
        keys: the names that do not fit.
    """

    values: Mapping[str, Tensor]
    renamed: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    keys: KeyLists


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The outcome of a conversion or an export."""

    architecture: str
    tensors: int
    renamed: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The outcome of a comparison; `difference` is None if nothing comparable came out."""

    architecture: str
    loaded_by: str
    outputs: int
    equal: bool
    difference: float | None
    folder: KeyLists
    checkpoint: KeyLists


# ---- the three operations --------------------------------------------------------------------------


def convert(
    config: Path, files: Sequence[Path], target: Path, *, allow_unexpected: bool = False
) -> Exchanged:
    """Write the weights of a folder of transformers as a checkpoint, under the names of its class.

    The file has no architecture, so that it loads into the class itself and into its flow graphs.

    Args:
        config: `config.json`; it is kept in the checkpoint.
        files: the weights, one file or all shards.
        target: the checkpoint.
        allow_unexpected: drop names that the class does not have.

    Raises:
        CheckpointError: a file is damaged, or the names and shapes do not fit.
        HuggingFaceError: the class cannot be built.
    """
    model = _build(config)
    values: dict[str, Tensor] = {}
    for path in files:
        values |= _values(open_contents(path))
    fitted = fit(values, model)
    _require_fit(fitted, model, files[0], allow_unexpected=allow_unexpected)
    write(target, fitted.values, {"fdl.config": config.read_text(encoding="utf-8")})
    return _exchanged(model, fitted)


def export(
    source: Path, config: Path, target: Path, *, allow_unexpected: bool = False
) -> Exchanged:
    """Write a checkpoint as a folder of transformers, by `save_pretrained` of its class.

    Raises:
        CheckpointError: the file is damaged, or the names and shapes do not fit.
        HuggingFaceError: the class cannot be built.
    """
    model = _build(config)
    fitted = fit(_values(open_contents(source)), model)
    _require_fit(fitted, model, source, allow_unexpected=allow_unexpected)
    _load(model, fitted)
    model.save_pretrained(target)
    return _exchanged(model, fitted)


def verify_export(source: Path, folder: Path) -> Verified:
    """Compare what a folder and a checkpoint compute on the same generated inputs, in eval mode.

    Raises:
        CheckpointError: the file is damaged.
        HuggingFaceError: the class cannot be built, or has inputs that are not known here.
    """
    model = _build(folder / "config.json")
    kind = type(model)
    fitted = fit(_values(open_contents(source)), model)
    auto = _auto_class(kind, model.config)
    try:
        loaded, info = auto.from_pretrained(
            folder, dtype="auto", local_files_only=True, output_loading_info=True,
            ignore_mismatched_sizes=True,
        )  # fmt: skip
    except Exception as error:
        raise _refused(f"{auto.__name__}.from_pretrained cannot load {folder}", error) from error
    keys = KeyLists(
        missing=tuple(sorted(info["missing_keys"])),
        unexpected=tuple(sorted(info["unexpected_keys"])),
        # Versions of transformers give the name alone, or with both shapes.
        other_shape=tuple(
            sorted(each if isinstance(each, str) else each[0] for each in info["mismatched_keys"])
        ),
    )
    outputs, difference = 0, None
    if type(loaded) is kind and not any(
        each.missing or each.other_shape for each in (keys, fitted.keys)
    ):
        _load(model, fitted)
        values = _inputs(model)
        outputs, difference = _compare(_run(loaded, values), _run(model, values))
    return Verified(
        architecture=kind.__name__,
        loaded_by=auto.__name__,
        outputs=outputs,
        equal=difference == 0,
        difference=difference,
        folder=keys,
        checkpoint=fitted.keys,
    )


def _exchanged(model: Any, fitted: Fitted) -> Exchanged:
    return Exchanged(
        architecture=type(model).__name__,
        tensors=len(fitted.values),
        renamed=fitted.renamed,
        dropped=(*fitted.dropped, *fitted.keys.unexpected),
    )


# ---- classes ---------------------------------------------------------------------------------------


def _build(config: Path) -> Any:
    """Return a model of the class that a configuration names; its values are random."""
    library = importlib.import_module("transformers")
    try:
        found = library.AutoConfig.from_pretrained(
            config, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers raises many kinds
        raise _refused(f"transformers cannot read {config}", error) from error
    names = found.architectures or ()
    if not names:
        raise HuggingFaceError(
            f'{config} does not name a class; add a line such as "architectures": ["BertForMaskedLM"]'
        )
    kind: Any = getattr(library, names[0], None)
    if not isinstance(kind, type):
        raise HuggingFaceError(
            f"{config} names the class {names[0]!r}, which transformers {library.__version__} does not have"
        )
    try:
        return kind(found).eval()
    except Exception as error:
        raise _refused(f"{names[0]} cannot be built from {config}", error) from error


def _auto_class(kind: type, config: Any) -> Any:
    """Return the class `AutoModel...` that loads a class, or the class itself if there is none."""
    library = importlib.import_module("transformers.models.auto.modeling_auto")
    # The shortest name says the most: AutoModelForPreTraining has classes of several heads.
    for name, each in sorted(vars(library).items(), key=lambda item: (len(item[0]), item[0])):
        if not (name.startswith("AutoModel") and inspect.isclass(each)):
            continue
        mapping: Any = vars(each).get("_model_mapping")
        if mapping is None or type(config) not in mapping:
            continue
        found = mapping[type(config)]
        if kind in (found if isinstance(found, tuple) else (found,)):
            return each
    return kind


def _refused(what: str, error: Exception) -> HuggingFaceError:
    lines = str(error).strip().splitlines() or [""]
    return HuggingFaceError(f"{what} ({type(error).__name__}: {lines[0]})")


# ---- names -----------------------------------------------------------------------------------------


def _values(contents: AbstractContents) -> dict[str, Tensor]:
    contents.require_sound()
    names = [each.name for each in contents.entries()]
    names += stored_table(contents.metadata, "fdl.tied", contents.path)
    return read_tensors(contents, {each: each for each in names if not each.startswith("train/")})


def fit(values: Mapping[str, Tensor], model: Any) -> Fitted:
    """Return the values by the names of a model of transformers.

    Old names of layer norms change, and the prefix of the base model comes or goes.  A tied weight that is
    stored once counts for each of its names.

    Raises:
        CheckpointError: two names become one, or tied weights have different values.
    """
    state: dict[str, Tensor] = model.state_dict(keep_vars=True)
    old_names: dict[str, str] = {}
    others = []
    for name in values:
        new = _known_name(name, state, model.base_model_prefix)
        if new is None:
            others.append(name)
        elif new in old_names:
            raise CheckpointError(f"{old_names[new]!r} and {name!r} would both become {new!r}")
        else:
            old_names[new] = name
    ready = {name: values[old_names[name]] for name in state if name in old_names}
    _share_ties(ready, state)
    dropped = tuple(name for name in others if _is_ignored(name, model))
    keys = KeyLists(
        missing=tuple(name for name in state if name not in ready),
        unexpected=tuple(name for name in others if name not in dropped),
        other_shape=tuple(
            f"{name}: shape {list(each.shape)} in the file, {list(state[name].shape)} in "
            f"{type(model).__name__}"
            for name, each in ready.items()
            if each.shape != state[name].shape
        ),
    )
    return Fitted(
        values={name: ready[name] for name in state if name in ready},
        renamed=tuple((old, new) for new, old in old_names.items() if old != new),
        dropped=dropped,
        keys=keys,
    )


def _known_name(name: str, state: Mapping[str, Tensor], prefix: str) -> str | None:
    today = name
    for former, current in _FORMER:
        today = today.replace(former, current)
    bare = today.removeprefix(f"{prefix}.")
    return next((each for each in (name, today, bare, f"{prefix}.{today}") if each in state), None)


def _share_ties(ready: dict[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Give each name of a tied weight the same tensor."""
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for name, each in state.items():
        groups[id(each)].append(name)
    for names in groups.values():
        stored = [name for name in names if name in ready]
        if not stored or len(names) == 1:
            continue
        first = ready[stored[0]]
        for name in stored[1:]:
            if not _same(ready[name], first):
                raise CheckpointError(
                    f"{stored[0]} and {name} are one weight in this model, and have different values in the "
                    "file; set tie_word_embeddings to false in config.json if they are two"
                )
        ready |= dict.fromkeys(names, first)


def _is_ignored(name: str, model: Any) -> bool:
    """Return True if a model computes the value itself, or transformers ignores the name."""
    buffers = {each for each, _ in model.named_buffers()}
    if _known_name(name, dict.fromkeys(buffers, torch.empty(0)), model.base_model_prefix):
        return True
    patterns = model._keys_to_ignore_on_load_unexpected or ()
    return any(re.search(each, name) for each in patterns)


def _require_fit(fitted: Fitted, model: Any, path: Path, *, allow_unexpected: bool) -> None:
    keys = fitted.keys
    if allow_unexpected:
        keys = KeyLists(missing=keys.missing, other_shape=keys.other_shape)
    if keys.lines():
        raise CheckpointError(
            f"the weights do not fit {type(model).__name__}: {len(keys.missing)} names missing, "
            f"{len(keys.unexpected)} unexpected, {len(keys.other_shape)} of another shape",
            path=str(path),
            differences=keys.lines(),
        )


def _load(model: Any, fitted: Fitted) -> None:
    model.load_state_dict(fitted.values, assign=True)  # the dtypes are those of the file
    model.tie_weights()


# ---- values ----------------------------------------------------------------------------------------


def _inputs(model: Any) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(11)
    settings = model.config.to_dict()
    if model.main_input_name == "pixel_values":
        side = settings.get("image_size", 32)
        sides = tuple(side) if isinstance(side, list | tuple) else (side, side)
        shape = (2, settings.get("num_channels", 3), *sides)
        return {"pixel_values": torch.randn(shape, generator=source)}
    heard = sound_inputs(model, source)
    if heard is not None:
        return heard
    if model.main_input_name != "input_ids":
        raise HuggingFaceError(
            f"{type(model).__name__} takes {model.main_input_name}, for which no inputs are generated"
        )
    words = model.get_input_embeddings().num_embeddings
    tokens = torch.randint(min(4, words - 1), words, (2, _LENGTH), generator=source)
    end = settings.get("eos_token_id")
    if isinstance(end, int) and end < words:
        tokens[:, -1] = end  # a classifier of BART looks for it
    mask = torch.ones_like(tokens)
    mask[1, _LENGTH // 2 :] = 0  # a shorter text
    found = {"input_ids": tokens, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        found["decoder_input_ids"] = tokens
    return found


def _run(model: Any, values: dict[str, Tensor]) -> list[Tensor]:
    kind = next((each.dtype for each in model.parameters() if each.is_floating_point()), None)
    ready = {
        name: each.to(kind) if each.is_floating_point() else each for name, each in values.items()
    }
    try:
        with torch.no_grad():
            found = model.eval()(**ready)
    except Exception as error:
        raise _refused(
            f"{type(model).__name__} does not run on generated inputs", error
        ) from error
    whole = tuple(found.values()) if isinstance(found, dict) else found
    return [each for each in pytree.tree_leaves(whole) if isinstance(each, Tensor)]


def _compare(ones: list[Tensor], others: list[Tensor]) -> tuple[int, float | None]:
    """Return how many outputs there are, and their largest difference; None if it is no number."""
    if len(ones) != len(others) or any(
        a.shape != b.shape for a, b in zip(ones, others, strict=True)
    ):
        return len(ones), None
    largest = 0.0
    for one, other in zip(ones, others, strict=True):
        if not _same(one, other) and one.numel():
            found = (one.double() - other.double()).abs().max().item()
            if found - found != 0:  # infinite or no number
                return len(ones), None
            largest = max(largest, found)
    return len(ones), largest


def _same(one: Tensor, other: Tensor) -> bool:
    """Return True if all bits are equal."""
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and torch.equal(
            one.contiguous().reshape(-1).view(torch.uint8),
            other.contiguous().reshape(-1).view(torch.uint8),
        )
    )
