"""Author, licence and Python of a project: what people write, checked, as its pyproject has it."""

import json
import re
from typing import Final

from fdl_cli.errors import UsageError

# The versions that flodl runs on, oldest first.
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
# The CI of a new project runs on these, as far as the project does.
CI_PYTHONS: Final = PYTHONS[:3]
# hatchling refuses an identifier that SPDX does not have, so a wrong one would break the first build.
LICENSES: Final = (
    "MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0", "Unlicense", "0BSD",
    "CC0-1.0", "CC-BY-4.0", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later",
    "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later", "AGPL-3.0-only", "AGPL-3.0-or-later",
    "EUPL-1.2", "BSL-1.0", "Zlib",
)  # fmt: skip
# Licences whose text is in `templates/licenses`, and its file there.
LICENSE_TEXTS: Final = {
    **{
        name: name
        for name in (
            "MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0", "Unlicense",
            "0BSD", "CC0-1.0",
        )
    },
    "GPL-3.0-only": "GPL-3.0",
    "GPL-3.0-or-later": "GPL-3.0",
}  # fmt: skip
_OWN_LICENSE: Final = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
_AUTHOR: Final = re.compile(r"(?P<name>[^<>]*?)\s*(?:<(?P<email>[^<>\s@]+@[^<>\s@]+)>)?")


def is_older(version: str, other: str) -> bool:
    """Return True if a Python is older than another one that flodl runs on.

    Example:
        >>> is_older("3.9", "3.11"), is_older("3.14", "3.11")
        (True, False)
    """
    one, two = (tuple(map(int, each.split("."))) for each in (version, other))
    return one < two


def read_author(text: str) -> str:
    """Return an author as `NAME <EMAIL>` or one of the two; blanks around it are dropped.

    Raises:
        UsageError: it is neither, or has control characters.

    Example:
        >>> read_author(" Jane Doe <jane@example.org> ")
        'Jane Doe <jane@example.org>'
    """
    author = text.strip()
    if author and not (author.isprintable() and _AUTHOR.fullmatch(author)):
        raise UsageError(
            error_id="init-author",
            message=f"`{author}` is not an author",
            hint='write it as `--author "Jane Doe <jane@example.org>"`',
        )
    return author


def holder_of(author: str, name: str) -> str:
    """Return who holds the copyright, for the text of a licence: the author, else those of the project.

    Example:
        >>> holder_of("Jane Doe <jane@example.org>", "p"), holder_of("", "p")
        ('Jane Doe', 'the authors of p')
    """
    found = _AUTHOR.fullmatch(author)
    given = (found["name"] or found["email"]) if found is not None else ""
    return given or f"the authors of {name}"


def author_table(author: str) -> str:
    """Return an author as the table of a pyproject.

    Example:
        >>> author_table("Jane Doe <jane@example.org>")
        '{ name = "Jane Doe", email = "jane@example.org" }'
    """
    found = _AUTHOR.fullmatch(author)
    fields = {} if found is None else found.groupdict()
    # A string of JSON is one of TOML too.
    pairs = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in fields.items()
        if value
    ]
    return f"{{ {', '.join(pairs)} }}"


def read_license(text: str) -> str:
    """Return the SPDX identifier of a licence, whatever its case; empty is none.

    Raises:
        UsageError: the identifier is unknown here.

    Example:
        >>> read_license("mit"), read_license("LicenseRef-Ours")
        ('MIT', 'LicenseRef-Ours')
    """
    name = text.strip()
    known = {each.lower(): each for each in LICENSES}
    if not name or _OWN_LICENSE.fullmatch(name):
        return name
    if name.lower() in known:
        return known[name.lower()]
    import difflib

    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    guess = known[near[0]] if near else "MIT"
    raise UsageError(
        error_id="init-license",
        message=f"`{name}` is not the SPDX identifier of a licence that fdl knows",
        hint=f"try `--license {guess}`, or `--license LicenseRef-NAME` for your own",
    )


def read_python(text: str) -> str:
    """Return the oldest Python of a project.

    Raises:
        UsageError: flodl does not run on it.
    """
    version = text.strip().removeprefix(">=").strip()
    if version not in PYTHONS:
        raise UsageError(
            error_id="init-python",
            message=f"`{text.strip()}` is not a Python that flodl runs on",
            hint=f"choose one of {', '.join(PYTHONS)}: `--python {PYTHONS[0]}`",
        )
    return version
