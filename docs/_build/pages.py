"""Writers of a tutorial: a Markdown page with the outputs of a run, and a notebook."""

import json
import re
from typing import Any

from docs._build.percent import Cell, Tutorial
from docs._build.running import Output


def page_of(tutorial: Tutorial, outputs: tuple[Output, ...]) -> tuple[str, dict[str, str]]:
    """Return the Markdown of a tutorial, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, str] = {}
    remaining = iter(outputs)
    for cell in tutorial.cells:
        if cell.kind == "markdown":
            text = page_links(cell.text)
            parts.append(text if parts else _with_downloads(text, tutorial.name))
            continue
        parts.append(f"```python\n{cell.text}\n```")
        output = next(remaining)
        if output.printed.strip():
            parts.append(f"```text\n{output.printed.rstrip()}\n```")
        if output.picture:
            name = f"{tutorial.name}-{len(pictures) + 1}.svg"
            pictures[name] = output.picture
            parts.append(f"![{alternative_text(output.picture)}]({name})")
    return "\n\n".join(parts) + "\n", pictures


def _with_downloads(text: str, name: str) -> str:
    """Add a line to the introduction of a tutorial, before its first section."""
    links = (
        f'<small>Run it yourself: <a href="{name}.ipynb" download>notebook</a> or '
        f'<a href="{name}.py" download>Python file</a>.</small>'
    )
    introduction, mark, rest = text.partition("\n## ")
    return f"{introduction.rstrip()}\n\n{links}\n{mark}{rest}"


def page_links(text: str) -> str:
    """Let links to tutorials lead to their pages instead of their sources.

    Example:
        >>> page_links("Next: [training](04_training.py).")
        'Next: [training](04_training.md).'
    """
    return re.sub(r"\]\(((?:\.\./tutorials/|tutorials/)?\d\d_\w+)\.py(#[\w-]+)?\)", r"](\1.md\2)", text)


def alternative_text(picture: str) -> str:
    """Return what a picture shows, in words."""
    found = re.search(r'aria-label="([^"]*)"', picture)
    return f"the graph of {found[1]}" if found else "a graph"


def notebook_of(tutorial: Tutorial) -> str:
    """Return a tutorial as a notebook without outputs: running it is the point of a notebook."""
    cells = [_notebook_cell(number, cell) for number, cell in enumerate(tutorial.cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1) + "\n"


def _notebook_cell(number: int, cell: Cell) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cell_type": cell.kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": cell.text.splitlines(keepends=True),
    }
    if cell.kind == "code":
        made |= {"execution_count": None, "outputs": []}
    return made
