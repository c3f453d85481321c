"""Parser of Google-style docstrings: summary, body and sections."""

import inspect
import re
from typing import Final

from fdl_cli.apiref.model import Described, Doc

_SECTIONS: Final = (
    "Args", "Returns", "Yields", "Raises", "Example", "Examples", "Shape", "Shapes", "Attributes",
)  # fmt: skip
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)}):\s*$")
_ITEM = re.compile(r"^(\*{0,2}[A-Za-z_][\w., ]*)(?: \([^)]*\))?:\s+(.*)$")


def parse_docstring(text: str | None) -> Doc:
    """Return the parts of a docstring; an absent one gives an empty `Doc`.

    Example:
        >>> parse_docstring("Add two numbers.").summary
        'Add two numbers.'
    """
    opening, sections = _split(inspect.cleandoc(text or ""))
    paragraphs = opening.strip().split("\n\n", 1)
    return Doc(
        summary=" ".join(paragraphs[0].split()),
        body=paragraphs[1].strip() if len(paragraphs) > 1 else "",
        parameters=_items(sections, "Args", "Attributes"),
        returns=" ".join(_joined(sections, "Returns", "Yields").split()),
        raises=_items(sections, "Raises"),
        shape=_joined(sections, "Shape", "Shapes"),
        examples=tuple(
            inspect.cleandoc(body).strip()
            for name, body in sections
            if name in ("Example", "Examples")
        ),
    )


def _split(text: str) -> tuple[str, list[tuple[str, str]]]:
    opening: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading:
            sections.append((heading.group(1), []))
        elif sections and (not line.strip() or line.startswith(" ")):
            sections[-1][1].append(line)
        elif sections:
            # Prose after a section belongs to the body again.
            opening += ["", line]
        else:
            opening.append(line)
    return "\n".join(opening), [(name, "\n".join(lines)) for name, lines in sections]


def _joined(sections: list[tuple[str, str]], *names: str) -> str:
    # cleandoc leaves the first line alone, so an empty one goes first.
    texts = [inspect.cleandoc("\n" + body) for name, body in sections if name in names]
    return "\n".join(texts).strip()


def _items(sections: list[tuple[str, str]], *names: str) -> tuple[Described, ...]:
    found: list[tuple[str, list[str]]] = []
    for line in _joined(sections, *names).splitlines():
        item = None if line.startswith(" ") else _ITEM.match(line)
        if item:
            found.append((item.group(1).strip(), [item.group(2)]))
        elif found:
            found[-1][1].append(line.strip())
    return tuple(Described(name=name, text=" ".join(words).strip()) for name, words in found)
