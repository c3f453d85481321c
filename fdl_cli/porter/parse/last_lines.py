r"""The blank lines at the end of a file, of which libcst loses some that hold white space.

See `libcst.parse_module("x = 1\n \n \n").code`, libcst 1.8: one of the two lines is gone.
"""

import re

import libcst

_LINE = re.compile(r"([ \t\f]*)(#[^\r\n]*)?(\r\n|\r|\n|\Z)")


def with_last_lines(module: libcst.Module, text: str) -> libcst.Module:
    """Return the module with all lines that its text has behind the last statement."""
    whole = module.with_changes(footer=(), has_trailing_newline=True)
    rest = text.removeprefix(whole.code)
    lines = list(_LINE.finditer(rest))
    if len(rest) == len(text) or "".join(line.group() for line in lines) != rest:
        return module
    footer = tuple(_empty_line(line) for line in lines if line.group())
    ends = rest.endswith(("\r", "\n"))
    return module.with_changes(footer=footer, has_trailing_newline=ends)


def _empty_line(line: re.Match[str]) -> libcst.EmptyLine:
    space, comment, newline = line.groups()
    return libcst.EmptyLine(
        whitespace=libcst.SimpleWhitespace(space),
        comment=libcst.Comment(comment) if comment else None,
        newline=libcst.Newline(newline or None),
    )
