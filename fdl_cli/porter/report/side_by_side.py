"""Two texts side by side as a table; long equal parts are folded, and open on a click."""

from collections.abc import Iterator
from difflib import SequenceMatcher

from fdl_cli.porter.report.highlight import coloured_lines

# Lines around a change that stay visible; longer equal parts are folded.
_CONTEXT = 3
# The widths are those of the columns: without them a fold in the first row would give all the same width.
_COLUMNS = '<colgroup><col class="number"><col><col class="number"><col></colgroup>'


def side_by_side(before: str, after: str) -> Iterator[str]:
    """Yield the table of two texts."""
    old, new = coloured_lines(before), coloured_lines(after)
    yield f'<div class="wide"><table class="diff">{_COLUMNS}<tbody>'
    matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    blocks = matcher.get_opcodes()
    for number, (tag, i1, i2, j1, j2) in enumerate(blocks):
        if tag == "equal":
            first, last = number == 0, number == len(blocks) - 1
            yield from _equal(old, i1, i2, j1, open_start=first, open_end=last)
            continue
        for row in range(max(i2 - i1, j2 - j1)):
            left = i1 + row if i1 + row < i2 else None
            right = j1 + row if j1 + row < j2 else None
            cells = f"{_cell(old, left, 'minus')}{_cell(new, right, 'plus')}"
            yield f'<tr class="changed">{cells}</tr>'
    yield "</tbody></table></div>"


def _equal(
    lines: list[str], start: int, end: int, other: int, *, open_start: bool, open_end: bool
) -> Iterator[str]:
    head = 0 if open_start else _CONTEXT
    tail = 0 if open_end else _CONTEXT
    length = end - start
    rows = [_both(lines[start + row], start + row, other + row) for row in range(length)]
    if length <= head + tail + 1:
        yield from rows
        return
    yield from rows[:head]
    words = f"{length - head - tail} lines as they were"
    yield '</tbody><tbody class="fold"><tr><td colspan="4">'
    yield f'<button type="button" aria-expanded="false">{words}</button></td></tr></tbody>'
    yield '<tbody class="rest" hidden>'
    yield from rows[head : length - tail]
    yield "</tbody><tbody>"
    yield from rows[length - tail :]


def _both(line: str, left: int, right: int) -> str:
    cell = f"<td><pre>{line}</pre></td>"
    return f"<tr><td>{left + 1}</td>{cell}<td>{right + 1}</td>{cell}</tr>"


def _cell(lines: list[str], number: int | None, kind: str) -> str:
    if number is None:
        return '<td></td><td class="none"></td>'
    return f'<td>{number + 1}</td><td class="{kind}"><pre>{lines[number]}</pre></td>'
