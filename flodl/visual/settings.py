"""Settings of a layer in a few words, from its `extra_repr()`."""

from __future__ import annotations

import re

# Pieces that say only that nothing was changed.
_DEFAULTS = frozenset(
    {
        "bias=True", "inplace=False", "eps=1e-05", "elementwise_affine=True", "affine=True", "momentum=0.1",
        "track_running_stats=True", "dilation=1", "ceil_mode=False", "batch_first=False",
    }
)  # fmt: skip
_PIECE = re.compile(r"(?:\([^()]*\)|\[[^\[\]]*\]|[^,(\[]|[(\[])+")
_NUMBERS = re.compile(r"\(\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*\)|(\d+)")
# Names that are written as a word and a number, and the number that is left out.
_SIZES = {
    "kernel_size": ("kernel", None), "stride": ("stride", "1"), "padding": ("padding", "0"),
    "dilation": ("dilation", "1"), "output_padding": ("output padding", "0"), "groups": ("groups", "1"),
}  # fmt: skip


def settings_text(full: str) -> str:
    """Return the settings of a layer without those that are defaults.

    Args:
        full: the `extra_repr()` of the module, in one line.

    Example:
        >>> from flodl.visual.settings import settings_text
        >>> settings_text("in_features=16, out_features=4, bias=True")
        '16 \u2192 4'
        >>> settings_text("3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False")
        '3 \u2192 64, kernel 7\u00d77, stride 2, padding 3, no bias'
    """
    pieces = [piece.strip() for piece in _PIECE.findall(full)]
    found = [text for piece in pieces if piece not in _DEFAULTS and (text := _text(piece))]
    if len(found) > 1 and found[0].isdigit() and found[1].isdigit():
        found[:2] = [f"{found[0]} \u2192 {found[1]}"]
    return ", ".join(found)


def _text(piece: str) -> str:
    name, is_named, value = piece.partition("=")
    if not is_named:
        return piece
    if name in ("in_features", "out_features"):
        return value
    if name == "bias" and value == "False":
        return "no bias"
    if name in _SIZES and (numbers := _NUMBERS.fullmatch(value)):
        word, default = _SIZES[name]
        each = [number.strip() for number in (numbers[1] or numbers[2]).split(",")]
        size = each[0] if len(set(each)) == 1 and word != "kernel" else "\u00d7".join(each)
        return "" if size == default else f"{word} {size}"
    return name if value == "True" else piece
