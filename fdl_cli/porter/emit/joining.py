"""Expressions of several lines, put on one: at their new place, other line breaks are right."""

import ast
import re

_OPENED, _CLOSED = "([{", ")]}"
# Lines of comments, of strings over several lines, and continued ones stay as they are.
_KEPT = re.compile(r"#|\\|\"\"\"|'''")


def joined(text: str) -> str:
    """Return the text on one line, without the commas that stood last on a line; or as it is.

    It stays as it is where anything but blanks and such commas would be lost.
    """
    if ("\n" not in text and "\r" not in text) or _KEPT.search(text):
        return text
    lines = [line.strip() for line in re.split(r"\r\n|\r|\n", text)]
    for with_commas in (False, True):
        made = _together([line for line in lines if line], with_commas=with_commas)
        if _parsed(made) == _parsed(text) is not None:
            return made
    return text


def _together(lines: list[str], *, with_commas: bool) -> str:
    made = lines[0]
    for line in lines[1:]:
        if line[0] in _CLOSED:
            made = (made if with_commas else made.removesuffix(",")) + line
        elif made[-1] in _OPENED:
            made += line
        else:
            made += " " + line
    return made


def _parsed(text: str) -> str | None:
    try:
        return ast.dump(ast.parse(f"({text}\n)", mode="eval"))
    except SyntaxError:
        return None
