"""Replacement of `${NAME}` in values, as in compose; on the path of `fdl <task>`.

`$NAME` and `${NAME}` are the variable (nothing when unset), `${NAME:-text}` has a default for
unset or empty, `${NAME-text}` for unset, `${NAME:?text}` must be set, `$$` is a dollar sign.
"""

import re
from collections.abc import Mapping
from typing import Final

from fdl_cli.manifest.model import Trouble

_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_PATTERN: Final = re.compile(
    rf"\$(?:(?P<escaped>\$)|(?P<bare>{_NAME})|\{{(?P<name>{_NAME})(?:(?P<how>:?[-?])(?P<text>[^}}]*))?\}})"
)


def fill_in(text: str, environ: Mapping[str, str], where: str) -> str:
    """Return the text with its variables replaced.

    Raises:
        Trouble: a variable that must be set is not.
    """
    if "$" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["bare"] or match["name"]
        value = environ.get(name)
        how = match["how"] or ""
        missing = not value if how.startswith(":") else value is None
        if missing and how.endswith("?"):
            reason = match["text"] or "it is not set"
            raise Trouble("variable", f"`{where}` needs ${name}: {reason}", f"`export {name}=...`")
        if missing and how.endswith("-"):
            return match["text"]
        return value or ""

    return _PATTERN.sub(replace, text)
