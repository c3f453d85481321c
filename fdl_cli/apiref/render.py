"""Text of the reference for people and assistants, plain or Markdown, within a budget."""

from itertools import groupby
from typing import Final

from fdl_cli.apiref.categories import category_order
from fdl_cli.apiref.model import ApiIndex, Entry

LOOKUP_CHARS: Final = 4000
SUMMARY_CHARS: Final = 8000
_CUT: Final = "\n... cut here; `--max-chars 0` prints all of it"


def entry_text(index: ApiIndex, entry: Entry, most: int) -> str:
    """Return the reference of one name: signature, meaning, parts, examples and location."""
    doc = entry.doc
    sections = [entry.signature, _indented(doc.summary)]
    if doc.body:
        sections.append(_indented(doc.body))
    sections += [
        _listed("Parameters", [(part.name, part.text) for part in doc.parameters]),
        _titled("Returns", doc.returns),
        _titled("Shape", doc.shape),
        _listed("Raises", [(part.name, part.text) for part in doc.raises]),
        _titled("Example (run by the tests of flodl)", "\n\n".join(doc.examples)),
    ]
    members = index.members(entry.name)
    lines = [(member.name.rpartition(".")[2], member.doc.summary) for member in members]
    foot = f"{entry.category} · {entry.kind} · since {entry.since} · {entry.file}:{entry.line}"
    if entry.inherited_from:
        foot += f" · inherited from {entry.inherited_from}"
    # The members come last: they are the part that may be long, and each has its own page.
    sections += [foot, _listed("Members", lines)]
    return cut("\n\n".join(part for part in sections if part), most)


def summary_text(index: ApiIndex, most: int) -> str:
    """Return all public names by purpose, one line each, shortened where they are too many."""
    for width in (96, 72, 0):
        text = _summary(index, width)
        if not most or len(text) <= most:
            return text
    return cut(_summary(index, 0), most)


def markdown(index: ApiIndex, entries: tuple[Entry, ...], most: int) -> str:
    """Return entries as a Markdown document with one heading per purpose."""
    parts = [f"# flodl {index.version}: API reference"]
    for category, group in groupby(entries, key=lambda entry: entry.category):
        parts.append(f"## {category}")
        parts += [entry_markdown(entry) for entry in group]
    return cut("\n\n".join(parts), most)


def entry_markdown(entry: Entry) -> str:
    """Return one entry as Markdown."""
    doc = entry.doc
    parts = [
        f"### `{entry.short_name}`",
        f"```python\n{entry.signature}\n```",
        doc.summary,
        doc.body,
    ]
    if doc.parameters:
        parts.append("\n".join(f"- `{part.name}`: {part.text}" for part in doc.parameters))
    parts.append(f"**Returns:** {doc.returns}" if doc.returns else "")
    parts.append(f"**Shape:**\n\n{doc.shape}" if doc.shape else "")
    if doc.raises:
        parts.append(
            "**Raises:**\n\n" + "\n".join(f"- `{part.name}`: {part.text}" for part in doc.raises)
        )
    parts += [f"```pycon\n{example}\n```" for example in doc.examples]
    parts.append(f"*{entry.kind}, since {entry.since}, `{entry.file}:{entry.line}`*")
    return "\n\n".join(part for part in parts if part)


def cut(text: str, most: int) -> str:
    """Shorten a text to a number of characters and say so; 0 means no limit.

    Example:
        >>> len(cut("x" * 500, 100))
        100
    """
    if not most or len(text) <= most:
        return text
    if most <= len(_CUT):
        return text[:most]
    return text[: most - len(_CUT)] + _CUT


def one_line(entry: Entry, width: int) -> str:
    """Return a name and its summary on one line."""
    text = f"  {entry.short_name}"
    if width and entry.doc.summary:
        text += f" - {entry.doc.summary}"
    return text if not width or len(text) <= width else text[: width - 3] + "..."


def _summary(index: ApiIndex, width: int) -> str:
    lines = [f"flodl {index.version}: {len(index.public)} public names"]
    ordered = sorted(index.public, key=lambda entry: category_order(entry.category))
    for category, group in groupby(ordered, key=lambda entry: entry.category):
        lines += ["", f"{category}:"]
        if width:
            lines += [one_line(entry, width) for entry in group]
        else:
            lines.append("  " + ", ".join(entry.short_name for entry in group))
    lines += ["", "`fdl api-ref NAME` explains one; `--search WORD` and `--torch NAME` find one."]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def _titled(title: str, text: str) -> str:
    return f"{title}:\n{_indented(text)}" if text else ""


def _listed(title: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    width = min(18, max(len(name) for name, _ in rows))
    return f"{title}:\n" + "\n".join(f"  {name:{width}}  {text}".rstrip() for name, text in rows)
