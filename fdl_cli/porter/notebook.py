"""Notebooks as Python text and back: code cells are ported, every other byte stays."""

import ast
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from fdl_cli.porter.ir.findings import FileError
from fdl_cli.porter.json_places import Place, places
from fdl_cli.porter.parse.reader import UnreadableError

_CELL = "#-fdl-cell-{}-#"
_MAGIC = "pass  #-fdl-magic-#"
_RAW = "#-fdl-raw-#"
_MARK = re.compile(r"^#-fdl-cell-(\d+)-#\n", re.MULTILINE)
_MAGIC_LINE = re.compile(
    r"^(?P<indent>\s*)(?P<magic>[%!?].*|\w[\w., ]*=\s*[%!].*|[\w.]+\?{1,2}\s*)$"
)
# Cell magics whose cell is Python all the same.
_PYTHON_CELLS = frozenset({"%%time", "%%timeit", "%%capture", "%%prun"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One code cell: its number in the notebook, its text, and the text's place in the file."""

    number: int
    text: str
    place: Place


@final
class Notebook:
    """A notebook file, read once."""

    def __init__(self, raw: str, cells: tuple[_Cell, ...]) -> None:
        self._raw = raw
        self._cells = cells

    @classmethod
    def read(cls, data: bytes) -> "Notebook":
        """Read the bytes of an `.ipynb` file.

        Raises:
            UnreadableError: they are no notebook.
        """
        try:
            raw = data.decode("utf-8")
            document = json.loads(raw)
            found = tuple(_code_cells(document, places(raw)))
        except (UnicodeDecodeError, ValueError, KeyError, TypeError, RecursionError) as problem:
            raise UnreadableError(
                FileError(
                    id="notebook-unreadable",
                    message=f"this is not a notebook: {problem}",
                    hint="open it in Jupyter and save it again",
                    line=None,
                )
            ) from problem
        return cls(raw, found)

    @property
    def python(self) -> bytes:
        """All code cells as one Python file; magics are hidden behind comments."""
        parts = [f"{_CELL.format(cell.number)}\n{_hide(cell.text)}\n" for cell in self._cells]
        return "".join(parts).encode("utf-8", "surrogatepass")

    def cell_line(self, line: int) -> tuple[int, int]:
        """Return the number of the cell and the line in it for a line of `python`."""
        at, found = 0, (1, line)
        for cell in self._cells:
            if line <= at:
                break
            found = (cell.number, max(line - at - 1, 1))
            at += 2 + cell.text.count("\n")
        return found

    def with_python(self, text: str) -> bytes:
        """Return the notebook with the cells that a new Python text gives."""
        pieces = _MARK.split(text)
        fresh = {
            int(number): _show(body.removesuffix("\n"))
            for number, body in zip(pieces[1::2], pieces[2::2], strict=True)
        }
        made, at = [], 0
        for cell in self._cells:
            new = fresh.get(cell.number, cell.text)
            if new == cell.text:
                continue
            made += [self._raw[at : cell.place.start], _written(self._raw, cell.place, new)]
            at = cell.place.end
        return ("".join(made) + self._raw[at:]).encode("utf-8", "surrogatepass")


def _code_cells(document: Any, root: Place) -> Iterator[_Cell]:
    if "worksheets" in document:
        sheets = zip(document["worksheets"], root.items("worksheets"), strict=True)
        lists = [(sheet["cells"], place.items("cells")) for sheet, place in sheets]
    else:
        lists = [(document["cells"], root.items("cells"))]
    number = 0
    for cells, cell_places in lists:
        for cell, place in zip(cells, cell_places, strict=True):
            number += 1
            key = "source" if "source" in cell else "input"
            if cell["cell_type"] != "code" or not cell.get(key):
                continue
            source = cell[key]
            text = source if isinstance(source, str) else "".join(source)
            yield _Cell(number=number, text=text, place=place.item(key))


def _hide(text: str) -> str:
    if _MARK.search(text) or _MAGIC in text or "\r" in text:
        return _as_comment(text)
    if _is_python(text):
        return text
    lines = text.split("\n")
    if text.lstrip().startswith("%%") and text.split(None, 1)[0] not in _PYTHON_CELLS:
        return _as_comment(text)
    hidden = "\n".join(_hidden_line(line) for line in lines)
    return hidden if _is_python(hidden) else _as_comment(text)


def _hidden_line(line: str) -> str:
    found = _MAGIC_LINE.match(line)
    return line if found is None else f"{found['indent']}{_MAGIC}{found['magic']}"


def _as_comment(text: str) -> str:
    return "\n".join(_RAW + line for line in text.split("\n"))


def _show(text: str) -> str:
    return text.replace(_MAGIC, "").replace(_RAW, "")


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _written(raw: str, place: Place, text: str) -> str:
    """Return the JSON of a cell's text in the style of the text that it replaces."""
    old = raw[place.start : place.end]
    escape = raw.isascii()
    if not old.startswith("["):
        return json.dumps(text, ensure_ascii=escape)
    known = {json.loads(token): token for token in (raw[p.start : p.end] for p in place.parts)}
    lines = text.splitlines(keepends=True)
    tokens = [known.get(line) or json.dumps(line, ensure_ascii=escape) for line in lines]
    first, last = place.parts[0], place.parts[-1]
    head, tail = raw[place.start : first.start], raw[last.end : place.end]
    space = head[1:]
    comma = "," + space
    if len(place.parts) > 1:
        comma = raw[first.end : place.parts[1].start]
    return head + comma.join(tokens) + tail
