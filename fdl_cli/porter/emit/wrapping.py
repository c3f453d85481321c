"""Line breaks of an expression that is too long for its line, where a formatter would put them."""

import io
import keyword
import token
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
# From loosest to tightest: a line breaks before the loosest that there is.
_BREAKS = (
    frozenset({"if", "else"}),
    frozenset({"or"}),
    frozenset({"and"}),
    frozenset({"==", "!=", "<", "<=", ">", ">="}),
    frozenset({"|"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "@", "//", "%"}),
    frozenset({""}),
)
_STRINGS = frozenset({"STRING", "FSTRING_START"})
# Beside these a break at an operator would not be where a reader looks for it.
_UNBROKEN = frozenset({"=", ":=", ":", "for", "in", "is"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The layout around a statement: indentation, one level of it, and the width of the page."""

    indent: str
    unit: str
    width: int

    def deeper(self) -> "Frame":
        """Return the frame of the text inside brackets."""
        return replace(self, indent=self.indent + self.unit)


@final
@dataclass(frozen=True, slots=True)
class _Mark:
    """A word at which a line could break: where it is, and inside how many brackets."""

    at: int
    word: str
    depth: int
    is_after_value: bool


def wrapped(
    frame: Frame, prefix: str, text: str, end: str = "", *, is_operand: bool = False
) -> list[str]:
    """Return the lines of `prefix text end`: one if it fits, or where it cannot be broken.

    `text` is one expression, or several with commas. The additions are line breaks within
    brackets, a comma after the last of several, and one pair of brackets around all of it,
    which an operand does without if its own bracket is enough.
    """
    single = f"{frame.indent}{prefix}{text}{end}"
    if len(single) <= frame.width or "\n" in text or "\r" in text:
        return [single]
    marks = list(_marks(text))
    outside = [mark for mark in marks if mark.depth == 0]
    if any(mark.word == "lambda" for mark in outside):
        return [single]
    if any(mark.word == "," for mark in outside):
        inside = _inside(frame.deeper(), text)
        return [f"{frame.indent}{prefix}(", *inside, f"{frame.indent}){end}"]
    cuts = _operators(outside)
    opened = _last_bracket(outside, frame.width - len(frame.indent) - len(prefix) - 1)
    fits = opened is not None and len(frame.indent) + len(prefix) + opened[0] < frame.width
    if cuts and not (is_operand and fits):
        return _in_brackets(frame, prefix, _pieces(text, cuts), end)
    if opened is None:
        return [single]
    start, stop = opened
    return [
        f"{frame.indent}{prefix}{text[: start + 1]}",
        *_inside(frame.deeper(), text[start + 1 : stop]),
        f"{frame.indent}{text[stop:]}{end}",
    ]


def _marks(text: str) -> Iterator[_Mark]:
    """Yield brackets, commas, operators and keywords, except those inside a string.

    Between two adjacent strings there is an empty word.
    """
    depth, strings, is_after_value, is_after_string = 0, 0, False, False
    for item in tokenize.generate_tokens(io.StringIO(f"({text})").readline):
        kind, word = token.tok_name[item.type], item.string
        if kind in _STRINGS and is_after_string and not strings:
            yield _Mark(item.start[1] - 1, "", depth - 1, is_after_value=True)
        # Since Python 3.12 the parts of an f-string are separate tokens.
        strings += (kind == "FSTRING_START") - (kind == "FSTRING_END")
        if strings:
            continue
        is_keyword = keyword.iskeyword(word) and not word[0].isupper()
        if kind == "OP" or is_keyword:
            depth -= word in _CLOSING
            yield _Mark(item.start[1] - 1, word, depth - 1, is_after_value)
            depth += word in _OPENING
        is_word = kind in {"NAME", "NUMBER", "STRING", "FSTRING_END"}
        is_after_string = kind in {"STRING", "FSTRING_END"}
        is_after_value = (is_word and not is_keyword) or word in _CLOSING


def _operators(outside: list[_Mark]) -> list[tuple[int, str]]:
    """Return the places of the loosest operators outside all brackets."""
    starred = any(mark.word in {"*", "**"} and not mark.is_after_value for mark in outside)
    if starred or any(mark.word in _UNBROKEN for mark in outside):
        return []
    for words in _BREAKS:
        found = [(m.at, m.word) for m in outside if m.word in words and m.is_after_value]
        if found:
            return found
    return []


def _pieces(text: str, cuts: list[tuple[int, str]]) -> list[tuple[str, str]]:
    """Return the text before the first of the words, and each word with the text after it."""
    ends = [*(at for at, _ in cuts), len(text)]
    pieces = [("", text[: ends[0]].strip())]
    for (at, word), end in zip(cuts, ends[1:], strict=True):
        pieces.append((word, text[at + len(word) : end].strip()))
    return pieces


def _in_brackets(frame: Frame, prefix: str, pieces: list[tuple[str, str]], end: str) -> list[str]:
    inner = frame.deeper()
    lines = [f"{frame.indent}{prefix}("]
    for word, rest in pieces:
        lines += wrapped(inner, f"{word} " if word else "", rest, is_operand=True)
    return [*lines, f"{frame.indent}){end}"]


def _last_bracket(outside: list[_Mark], room: int) -> tuple[int, int] | None:
    """Return where the last pair of brackets that holds something opens and closes.

    It is the last that opens in the available width, if one does.
    """
    opened = [mark.at for mark in outside if mark.word in _OPENING]
    closed = [mark.at for mark in outside if mark.word in _CLOSING]
    pairs = zip(reversed(opened), reversed(closed), strict=False)
    filled = [(start, stop) for start, stop in pairs if stop > start + 1]
    return next((pair for pair in filled if pair[0] <= room), filled[0] if filled else None)


def _inside(frame: Frame, text: str) -> list[str]:
    """Return the text in brackets: on one line if it fits, else one item per line."""
    outside = [mark for mark in _marks(text) if mark.depth == 0]
    commas = [(mark.at, mark.word) for mark in outside if mark.word == ","]
    words = {mark.word for mark in outside}
    if "lambda" in words or "async" in words:
        return [frame.indent + text]
    if "for" in words:
        return _comprehension(frame, text, outside)
    if not commas:
        return wrapped(frame, "", text)
    if len(frame.indent) + len(text) <= frame.width:
        return [frame.indent + text]
    items = [item for _, item in _pieces(text, commas)]
    return [line for item in items if item for line in wrapped(frame, "", item, ",")]


def _comprehension(frame: Frame, text: str, outside: list[_Mark]) -> list[str]:
    """Return the element, and each `for` with its conditions, on separate lines."""
    if len(frame.indent) + len(text) <= frame.width:
        return [frame.indent + text]
    pieces = _pieces(text, [(mark.at, mark.word) for mark in outside if mark.word == "for"])
    loops = [f"{frame.indent}{word} {rest}" for word, rest in pieces[1:]]
    return [*wrapped(frame, "", pieces[0][1]), *loops]
