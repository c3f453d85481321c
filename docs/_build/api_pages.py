"""Pages of the API reference: the Markdown of `fdl api-ref`, one page for each purpose."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from docs._build.running import ROOT


def write_api_pages(target: Path) -> None:
    """Write one page for each group of names, and a page that lists them."""
    target.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fdl_cli", "api-ref", "--markdown", "--max-chars", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    groups = split_groups(done.stdout)
    for title, text in groups.items():
        (target / f"{slug(title)}.md").write_text(f"# {title}\n\n{text}", encoding="utf-8")
    rows = [
        f"| [{title}]({slug(title)}.md) | {names_in(text, title)} |"
        for title, text in groups.items()
    ]
    (target / "index.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


def write_llms_texts(target: Path) -> None:
    """Write `llms.txt` and `llms-full.txt`, which language models look for beside the first page."""
    for name in ("llms", "llms-full"):
        command = [sys.executable, "-m", "fdl_cli", "api-ref", f"--{name}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        (target / f"{name}.txt").write_text(done.stdout, encoding="utf-8")


HEAD: Final = """# API reference

All public names of `flodl`, by purpose. [`fdl api-ref NAME`](../api-ref.md) prints the same text in a terminal.

| Purpose | Names |
|---|---|
"""


def split_groups(markdown: str) -> dict[str, str]:
    """Return the text of every group by its title; repeated groups are joined.

    Names move up one level, and members stay below them.

    Example:
        >>> split_groups("# all\\n\\n## Losses\\n\\n### `l1_loss`\\n\\nMean.\\n")
        {'Losses': '## `l1_loss`\\n\\nMean.\\n'}
    """
    _, *groups = re.split(r"^## ", markdown, flags=re.MULTILINE)
    found: dict[str, list[str]] = {}
    for group in groups:
        title, _, text = group.partition("\n")
        moved = re.sub(r"^### (`[^.`]+`)$", r"## \1", text.strip("\n"), flags=re.MULTILINE)
        found.setdefault(title, []).append(moved)
    return {title: "\n\n".join(texts) + "\n" for title, texts in found.items()}


def names_in(text: str, title: str) -> str:
    """Return links to the names that a page explains, without members."""
    names = re.findall(r"^## `([^.`]+)`$", text, re.MULTILINE)
    return ", ".join(f"[`{name}`]({slug(title)}.md#{name.lower()})" for name in names)


def slug(title: str) -> str:
    """Return the file name of a group.

    Example:
        >>> slug("Devices and memory")
        'devices-and-memory'
    """
    return re.sub(r"\W+", "-", title.lower()).strip("-")
