"""Reader of documents below a folder: pages, code blocks, prose, code spans, headings and tables."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([\w ]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Its examples are fragments, written by the code that they explain; its own tests compare them.
GENERATED = ("docs/explanation/porter.md", "docs/project/features.md")
BESIDE = ("README.md", "SECURITY.md", "benchmarks/README.md", "examples/README.md")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One code block: the words after its fence, its text, and where it begins and ends."""

    kind: str
    body: str
    line: int
    start: int
    end: int


def documents(root):
    """Return the pages of a folder: those of `docs`, and those that lie beside the code."""
    pages = [root / name for name in BESIDE if (root / name).is_file()]
    return [*pages, *sorted((root / "docs").rglob("*.md"))]


def written(root):
    """Return the pages that people write; the others are compared with what generates them."""
    return [path for path in documents(root) if name_of(root, path) not in GENERATED]


def name_of(root, path):
    return path.relative_to(root).as_posix()


def read(path):
    return path.read_text(encoding="utf-8")


def blocks(path):
    """Return every code block of a page."""
    text = read(path)
    return [
        Block(
            kind=found[1],
            body=found[2],
            line=text.count("\n", 0, found.start()) + 1,
            start=found.start(),
            end=found.end(),
        )
        for found in FENCE.finditer(text)
    ]


def prose(path):
    """Return a page with empty lines in the place of its code blocks; a tutorial, its Markdown cells."""
    text = read(path)
    if path.suffix == ".py":
        parts = re.split(r"^# %%(.*)$", text, flags=re.MULTILINE)[1:]
        cells = zip(parts[::2], parts[1::2], strict=True)
        return "\n".join(re.sub(r"(?m)^# ?", "", t) for kind, t in cells if "markdown" in kind)
    return re.sub(
        r"^```.*?^```$",
        lambda found: "\n" * found[0].count("\n"),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


def spans(path):
    """Return (line, text) of each code span in the prose of a page."""
    text = prose(path)
    return [
        (text.count("\n", 0, found.start()) + 1, found[1])
        for found in re.finditer(r"(?<!`)`([^`\n]+)`(?!`)", text)
    ]


def anchors(path):
    """Return the anchors of the headings of a page or a tutorial."""
    found = set()
    for title in re.findall(r"^#{1,6} (.+)$", prose(path), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\s-]", "", plain).strip()
        found.add(re.sub(r"[\s-]+", "-", slug))
    return found


def tables(path):
    """Return (line, cells) of each row of a table, heads and rulers left out."""
    lines = prose(path).splitlines()
    rows = [(n, text) for n, text in enumerate(lines, 1) if text.startswith("|")]
    ruled = {n for n, text in rows if re.fullmatch(r"[|:\- ]+", text)}
    return [
        (n, [cell.strip() for cell in re.split(r"(?<!\\)\|", text.strip().strip("|"))])
        for n, text in rows
        if n not in ruled and n + 1 not in ruled
    ]
