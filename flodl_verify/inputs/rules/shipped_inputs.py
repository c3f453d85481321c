"""Inputs that a model itself declares: by its `dummy_inputs`, its main input and the fields of its settings.

Models of transformers take all of their inputs as optional ones, name the main one
(`main_input_name = "pixel_values"`), ship `dummy_inputs`, and keep their sizes in `config`.

Example:
    `T5Model` ships `input_ids` and `decoder_input_ids`. The first inputs are of the shapes that its
    settings give: two rows of seven tokens, none with a meaning but the last, which ends the text. The
    second are the shipped ones as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.values.recipes import Arguments

BATCH = 2
LENGTH = 7
_SIDE = 64
# After the strides of a usual stack of convolutions a dozen frames are left.
_SAMPLES = 4000
_MAX_SIDE = 512

_VOCABULARY = ("vocab_size", "n_vocab", "vocabulary_size", "n_words", "num_embeddings")
_WIDTH = ("hidden_size", "d_model", "n_embd", "embed_dim", "dim")
_CHANNELS = ("num_channels", "in_channels", "in_chans", "num_input_channels")
_IMAGE = ("image_size", "img_size", "input_size")
_BINS = ("num_mel_bins", "input_feat_per_channel", "feature_size", "input_dim")
_TOKEN = re.compile(r"\w*(token_id|token_index|pad_idx)s?")

Make = Callable[[Any, torch.Size | None], object]


@runtime_checkable
class _NamesItsInputs(Protocol):
    """A model as those of transformers are."""

    main_input_name: str
    config: object


def names_its_inputs(model: nn.Module) -> bool:
    """Return True if a model has settings, and says by name what it takes."""
    return isinstance(model, _NamesItsInputs) and isinstance(model.main_input_name, str)


def shipped_inputs(
    model: nn.Module, names: Sequence[str], wanted: Sequence[str] = ()
) -> Iterator[Arguments]:
    """Yield keyword arguments for a model that names its inputs, likeliest first.

    `names` are the parameters of its forward, `wanted` those which a refusal named; the caller sets the seed.
    """
    if not isinstance(model, _NamesItsInputs) or not names_its_inputs(model):
        return
    dummies = attempt(partial(getattr, model, "dummy_inputs", None))
    shipped = dict(dummies) if isinstance(dummies, Mapping) else {}
    main = model.main_input_name
    # The base class of transformers ships token numbers for models of images, too.
    known = {name: value for name, value in shipped.items() if main in shipped and name in names}
    chosen = dict.fromkeys((*(known or ((main,) if main in names else ())), *wanted))
    config = model.config
    made: dict[str, object] = {}
    rows: torch.Size | None = None
    for name in chosen:
        value = input_by_name(name, config, rows)
        if value is None:
            value = known.get(name)
        if value is not None:
            made[name] = value
            if isinstance(value, torch.Tensor) and rows is None:
                rows = value.shape
    if made:
        yield (), made
    if known:
        yield (), {name: _copied(value) for name, value in {**made, **known}.items()}


def input_by_name(name: str, config: object, rows: torch.Size | None) -> object:
    """Return an input by its name and the fields of some settings; None where nothing is known.

    `rows` is the shape of the first input, which masks and positions follow.
    """
    for pattern, make in _MAKERS:
        if pattern.fullmatch(name):
            return make(config, rows)
    return None


def _tokens(config: object, rows: torch.Size | None) -> torch.Tensor:
    """Return whole texts: no token in them has a meaning but the last, which ends them."""
    size = _field(config, _VOCABULARY) or 32
    special = {
        value for name, value in _fields(config) if type(value) is int and _TOKEN.fullmatch(name)
    }
    plain = [token for token in range(min(size, 512)) if token not in special] or [0]
    shape = tuple(rows[:2]) if rows is not None and len(rows) == 2 else (BATCH, LENGTH)
    made = torch.tensor(plain)[torch.randint(len(plain), shape)]
    end = _field(config, ("eos_token_id",))
    if end is not None and 0 <= end < size:
        made[:, -1] = end
    return made


def _mask(config: object, rows: torch.Size | None) -> torch.Tensor:
    del config
    shape = (BATCH, LENGTH) if rows is None else tuple(rows[:2])
    return torch.ones(shape, dtype=torch.long)


def _picture_mask(config: object, rows: torch.Size | None) -> torch.Tensor:
    side = _side(config)
    shape = (BATCH, *side) if rows is None or len(rows) < 4 else (rows[0], *rows[-2:])
    return torch.ones(shape, dtype=torch.long)


def _types(config: object, rows: torch.Size | None) -> torch.Tensor:
    return torch.zeros_like(_mask(config, rows))


def _positions(config: object, rows: torch.Size | None) -> torch.Tensor:
    mask = _mask(config, rows)
    return torch.arange(mask.shape[1]).expand(mask.shape).clone()


def _picture(config: object, rows: torch.Size | None) -> torch.Tensor:
    batch = BATCH if rows is None else rows[0]
    return torch.randn(batch, _field(config, _CHANNELS) or 3, *_side(config))


def _samples(config: object, rows: torch.Size | None) -> torch.Tensor:
    del config, rows
    return torch.randn(BATCH, _SAMPLES)


def _spectrum(config: object, rows: torch.Size | None) -> torch.Tensor:
    del rows
    bins = _field(config, _BINS) or 80
    frames = _field(config, ("max_source_positions",))
    if frames is not None and _field(config, ("num_mel_bins",)) is not None:
        # As whisper has it: two frames for each position.
        return torch.randn(BATCH, bins, 2 * frames)
    return torch.randn(BATCH, 4 * LENGTH, bins)


def _vectors(config: object, rows: torch.Size | None) -> torch.Tensor:
    shape = (BATCH, LENGTH) if rows is None else tuple(rows[:2])
    return torch.randn(*shape, _field(config, _WIDTH) or 32)


def _boxes(config: object, rows: torch.Size | None) -> torch.Tensor:
    low = torch.randint(0, 30, (*_mask(config, rows).shape, 2))
    return torch.cat([low, low + torch.randint(0, 30, low.shape)], dim=-1)


def _side(config: object) -> tuple[int, int]:
    for name, value in _fields(config):
        if name in _IMAGE and isinstance(value, list | tuple) and len(value) == 2:
            return int(value[0]), int(value[1])
    side = _field(config, _IMAGE) or _SIDE
    return min(side, _MAX_SIDE), min(side, _MAX_SIDE)


def _field(config: object, names: Sequence[str]) -> int | None:
    """Return the first of some fields that is a whole number: of the settings, or of those inside of them."""
    found = {name: value for name, value in reversed(list(_fields(config))) if type(value) is int}
    for name in names:
        value = found.get(name, getattr(config, name, None))  # some are properties
        if type(value) is int and not math.isinf(value):
            return value
    return None


def _fields(config: object, depth: int = 0) -> Iterator[tuple[str, Any]]:
    own = attempt(partial(vars, config))
    if isinstance(own, Failure):
        return
    yield from own.items()
    for name, value in own.items():
        if depth < 2 and name.endswith("config") and not isinstance(value, Mapping):
            yield from _fields(value, depth + 1)


def _copied(value: object) -> object:
    return value.clone() if isinstance(value, torch.Tensor) else value


_MAKERS: tuple[tuple[re.Pattern[str], Make], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"(\w+_)?input_ids", _tokens),
        (r"pixel_mask", _picture_mask),
        (r"(\w+_)?(attention|padding)_mask", _mask),
        (r"(\w+_)?token_type_ids", _types),
        (r"(\w+_)?position_ids", _positions),
        (r"(\w+_)?pixel_values(_\w+)?", _picture),
        (r"input_values", _samples),
        (r"input_features", _spectrum),
        (r"(\w+_)?(inputs_embeds|hidden_states|encoder_outputs)", _vectors),
        (r"bbox", _boxes),
    )
)
