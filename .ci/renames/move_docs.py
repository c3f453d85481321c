"""Moves of the documents into folders by their kind; links, paths in code and in tests follow.

Usage: `python .ci/renames/move_docs.py`, in a clean checkout.  `docs/flows.md` becomes
`docs/explanation/flows.md`, and its link `(tree.md#tags)` becomes `(../how-to/tree.md#tags)`.
"""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "how-to": "setup init checkpoints data monitor pictures observation port-projects skill training tree",
    "explanation": "flows porter verification",
    "reference": "api-ref commands tasks migration",
    "benchmarks": "performance",
    "project": "architecture contributing features",
}
NAMES = {"migration": "pytorch-map"}
MOVES = {
    f"docs/{stem}.md": f"docs/{folder}/{NAMES.get(stem, stem)}.md"
    for folder, stems in FOLDERS.items()
    for stem in stems.split()
}
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def git(*words: str) -> list[str]:
    """Return the lines that git prints."""
    argv = ["git", "-C", str(ROOT), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def with_links(text: str, old: str, new: str) -> str:
    """Return a document whose relative links lead to the same files from its new place."""

    def moved(match: re.Match[str]) -> str:
        target = os.path.normpath(Path(old).parent / match[1])
        if not (ROOT / target).exists():
            return match[0]
        target = MOVES.get(target, target)
        return f"]({os.path.relpath(target, Path(new).parent)}{match[2] or ''})"

    return LINK.sub(moved, text)


def with_paths(text: str) -> str:
    """Return a text whose paths of documents are the new ones."""
    for old, new in MOVES.items():
        _, folder, name = new.split("/")
        before = old.removeprefix("docs/")
        text = re.sub(rf"(?<![\w/])docs/{re.escape(before)}\b", new, text)
        text = text.replace(f'"docs" / "{before}"', f'"docs" / "{folder}" / "{name}"')
        text = text.replace(f'DOCS / "{before}"', f'DOCS / "{folder}" / "{name}"')
        text = text.replace(f"blob/main/docs/{before}", f"blob/main/{new}")
    return text


def main() -> None:
    """Move everything in the checkout."""
    for name in git("ls-files"):
        file = ROOT / name
        if name.startswith((".ci/renames/", "tests/data/", "benchmarks/results/")):
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        moved = with_links(text, name, MOVES.get(name, name)) if name.endswith(".md") else text
        moved = with_paths(moved)
        if moved != text:
            file.write_text(moved, encoding="utf-8")
    for old, new in MOVES.items():
        (ROOT / new).parent.mkdir(exist_ok=True)
        git("mv", old, new)


main()
