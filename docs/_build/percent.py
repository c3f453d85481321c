"""Reader of tutorials: Python files in the percent format of Jupytext."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

Kind = Literal["markdown", "code"]
HEADER: Final = re.compile(r"^# %%(?: \[(?P<kind>\w+)\])?\s*$")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: its kind, its text, and the line of the file at which the text begins."""

    kind: Kind
    text: str
    line: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tutorial:
    """A tutorial: the stem of its file and its cells."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        """The first heading."""
        return self.cells[0].text.splitlines()[0].removeprefix("# ")


def read_tutorial(path: Path) -> Tutorial:
    """Read a file whose first cell is Markdown and begins with a heading of the first level."""
    cells = parse_cells(path.read_text(encoding="utf-8"))
    if not cells or cells[0].kind != "markdown" or not cells[0].text.startswith("# "):
        message = f"{path}: the first cell is no `# %% [markdown]` with a title; begin with one"
        raise ValueError(message)
    return Tutorial(name=path.stem, cells=cells)


def parse_cells(text: str) -> tuple[Cell, ...]:
    """Split the text of a file into its cells.

    Example:
        >>> [cell.text for cell in parse_cells("# %% [markdown]\\n# # Title\\n\\n# %%\\nx = 1\\n")]
        ['# Title', 'x = 1']
    """
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if HEADER.match(line)]
    ends = [*starts[1:], len(lines)]
    return tuple(
        _cell(lines[start], lines[start + 1 : end], start + 2)
        for start, end in zip(starts, ends, strict=True)
    )


def _cell(header: str, lines: list[str], line: int) -> Cell:
    found = HEADER.match(header)
    kind: Kind = "markdown" if found and found["kind"] == "markdown" else "code"
    if kind == "markdown":
        lines = [re.sub(r"^# ?", "", each) for each in lines]
    return Cell(kind=kind, text="\n".join(lines).strip(), line=line)
