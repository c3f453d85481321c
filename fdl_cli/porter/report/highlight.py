"""Python source as HTML lines with colours for its words, without a parser: broken files show too."""

import keyword
import re
from collections.abc import Iterator
from html import escape

# A line break is part of a gap or of a string, and never on the border of two tokens.
_TOKENS = re.compile(
    r"""(?P<comment>\#[^\r\n]*)
    |(?P<string>(?i:[rbuft]{0,2})(?:
        '''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"
        |'(?:\\.|[^'\\\r\n])*'|"(?:\\.|[^"\\\r\n])*"))
    |(?P<decorator>^[ \t]*@[\w.]+)
    |(?P<name>(?<=\bdef\ )\w+|(?<=\bclass\ )\w+)
    |(?P<number>\b\d[\w.]*(?:(?<=[eE])[+-]\d+)?)
    |(?P<word>\b[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_SELF = frozenset({"self", "cls"})


def coloured_lines(source: str) -> list[str]:
    """Return the lines of a source as HTML, one for each of `source.splitlines()`."""
    lines: list[str] = []
    line = ""
    for text, colour in _pieces(source):
        for part in text.splitlines(keepends=True):
            (words,) = part.splitlines()
            shown = escape(words, quote=False)
            line += f'<i class="{colour}">{shown}</i>' if colour and shown else shown
            if words != part:
                lines.append(line)
                line = ""
    return [*lines, line] if line else lines


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    at = 0
    for token in _TOKENS.finditer(source):
        if token.start() > at:
            yield source[at : token.start()], ""
        yield token[0], _colour(token.lastgroup or "", token[0])
        at = token.end()
    if at < len(source):
        yield source[at:], ""


def _colour(kind: str, text: str) -> str:
    if kind != "word":
        return kind
    if keyword.iskeyword(text):
        return "keyword"
    return "self" if text in _SELF else ""
