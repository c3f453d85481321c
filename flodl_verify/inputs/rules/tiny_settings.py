"""Tiny values for the fields of a model's settings, by the names that the field uses for them.

Example:
    `BertConfig()` has `hidden_size=768, num_attention_heads=12, num_hidden_layers=12,
    intermediate_size=3072, vocab_size=30522`. The changes are `hidden_size=32,
    num_attention_heads=4, num_hidden_layers=2, intermediate_size=64, vocab_size=128`: the code that
    runs is the same, on a thousandth of the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from flodl_verify.inputs.rules.lighter_sizes import FEW, REPEATED, smaller_setting

Rules = tuple[tuple[re.Pattern[str], int], ...]


def _rules(*named: tuple[str, int]) -> Rules:
    return tuple((re.compile(pattern), value) for pattern, value in named)


# The first rule that matches a name counts. Widths depend on each other: heads divide hidden sizes.
_WIDTHS = _rules(
    (r"(\w+_)?(num|n)_(key_value_|kv_)heads?|multi_query_group_num|num_kv_heads?", 2),
    (r"(\w+_)?((num|n)_?)?(\w+_)?heads?", 4),
    (r"(\w+_)?(head_dim|head_size)|d_kv|d_head|kv_channels", 8),
    (r"(\w+_)?(intermediate_size|ffn_dim|d_ff|d_inner|n_inner|ffn_hidden_size)", 64),
    (r"(\w+_)?(mlp_dim|hidden_dim)", 64),
    (r"(\w+_)?(hidden_size|d_model|n_embd|embed_dim|embedding_size|emb_dim|model_dim)|dim", 32),
    (r"(\w+_)?(projection_dim|proj_size|d_embed)", 32),
)
_COUNTS = _rules(
    (r"(\w+_)?(vocab_size|vocabulary_size|n_vocab|n_words|num_embeddings)", 128),
    (r"(\w+_)?(max_position_embeddings|n_positions|n_ctx|seq_length|seq_len)", 64),
    (r"(\w+_)?(block_size|max_length|max_\w+_positions|max_2d_position_embeddings)", 64),
    (r"(\w+_)?num_queries|num_experts|num_local_experts|n_routed_experts", 4),
)
_TOKEN = re.compile(r"(\w+_)?(token_id|token_index|idx)")
_TOKENS = re.compile(r"(\w+_)?tokens(_ids)?")
_VOCABULARY = re.compile(r"vocab_size|n_vocab|vocabulary_size|n_words")
_PRETRAINED = re.compile(r"(use_)?pretrained(_\w+)?|load_pretrained|(use_)?\w*pretrained_weights")
_DEPTHS = re.compile(rf"(\w+_)?depths|{REPEATED.pattern}")
# A list of sizes is divided by what leaves the smallest one at this.
_LEAST_LISTED = 8
_LARGE_LISTED = 64
_PATCHES = 2
_LEAST_SIDE = 32


def tiny_values(values: Mapping[str, Any], *, widths: bool = True) -> dict[str, Any]:
    """Return new values for the fields of some settings that make a model large; others stay.

    Lists with an entry for each layer become as short as there are layers, tokens with a meaning stay
    inside of the vocabulary. Without `widths`, large ones become a sixteenth, and the rest of them stay.
    """
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if type(value) is int:
            less = _tiny(name.lower(), value, widths=widths)
            if less != value:
                changes[name] = less
    changes.update(_lists(values, changes))
    changes.update(_tokens(values, changes))
    changes.update(_sides(values))
    return changes


def self_contained(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values for fields that ask for other packages or for weights from elsewhere."""
    changes: dict[str, Any] = {
        name: False
        for name, value in values.items()
        if value is True and _PRETRAINED.fullmatch(name.lower())
    }
    # transformers has backbones itself; those of timm are requested by name.
    if values.get("use_timm_backbone") is True:
        changes["use_timm_backbone"] = False
        if isinstance(values.get("backbone"), str):
            changes["backbone"] = None
        if values.get("backbone_kwargs"):
            changes["backbone_kwargs"] = None
    return changes


def _tiny(name: str, value: int, *, widths: bool) -> int:
    if REPEATED.fullmatch(name):
        return min(value, FEW)
    width, count = _first(_WIDTHS, name), _first(_COUNTS, name)
    if width is not None:
        return min(value, width) if widths else smaller_setting(name, value)
    return value if count is None else min(value, count)


def _first(rules: Rules, name: str) -> int | None:
    return next((size for pattern, size in rules if pattern.fullmatch(name)), None)


def _lists(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield shorter and smaller lists."""
    lengths = {
        values[name]: less for name, less in changes.items() if REPEATED.fullmatch(name.lower())
    }
    for name, value in values.items():
        if not isinstance(value, list | tuple) or not value:
            continue
        items = list(value)
        if _DEPTHS.fullmatch(name.lower()) and all(type(item) is int for item in items):
            items = [min(item, 1) for item in items]
        elif all(type(item) is int for item in items):
            items = _smaller_sizes(items)
        if len(items) in lengths:
            items = items[: lengths[len(items)]]
        if items != list(value):
            yield name, type(value)(items)


def _smaller_sizes(sizes: list[int]) -> list[int]:
    """Return sizes in the same proportion, divided by a power of two."""
    part = 1
    while min(sizes) // (2 * part) >= _LEAST_LISTED and all(
        size % (2 * part) == 0 for size in sizes
    ):
        part *= 2
    return [size // part for size in sizes] if max(sizes) > _LARGE_LISTED else sizes


def _tokens(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield tokens below the size of the vocabulary, different ones as far as there are."""
    size = next((changes[name] for name in changes if _VOCABULARY.fullmatch(name.lower())), None)
    if size is None:
        return
    moved: dict[int, int] = {}
    for name, value in values.items():
        if _TOKEN.fullmatch(name.lower()) and type(value) is int and value >= size:
            # From the end, where no other token has a meaning.
            yield name, moved.setdefault(value, size - 1 - len(moved))
        elif _TOKENS.fullmatch(name.lower()) and isinstance(value, list):
            known = [item for item in value if type(item) is not int or item < size]
            if known != value:
                yield name, known


def _sides(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield a smaller side of an image: of two patches, and of whole ones."""
    patch = values.get("patch_size")
    for name, value in values.items():
        if name not in {"image_size", "img_size"} or type(value) is not int:
            continue
        least = _PATCHES * patch if type(patch) is int else _LEAST_SIDE
        while least < _LEAST_SIDE:
            least *= 2
        if least < value:
            yield name, least
