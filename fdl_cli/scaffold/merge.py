"""Merge of two descendants of one text, line by line, with marked conflicts."""

import difflib
from dataclasses import dataclass
from typing import final

OURS, MIDDLE, THEIRS = "<<<<<<< yours", "=======", ">>>>>>> template"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged text, and how many places need a decision."""

    text: str
    conflicts: int


def merge(base: str, ours: str, theirs: str) -> Merged:
    r"""Return the text with the changes of both sides.

    Changes of the same lines that differ are kept both, between conflict markers. Changes that
    touch each other count as one.

    Example:
        >>> merge("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n").text
        'A\nb\nC\n'
    """
    base_lines, our_lines, their_lines = (
        text.splitlines(keepends=True) for text in (base, ours, theirs)
    )
    ours_at = _matches(base_lines, our_lines)
    theirs_at = _matches(base_lines, their_lines)
    out: list[str] = []
    conflicts = 0
    at = our_at = their_at = 0
    for line in [*range(len(base_lines)), None]:
        end = len(base_lines) if line is None else line
        our_end = len(our_lines) if line is None else ours_at.get(line)
        their_end = len(their_lines) if line is None else theirs_at.get(line)
        if our_end is None or their_end is None:
            continue  # not a line that all three share
        piece = _piece(
            base_lines[at:end], our_lines[our_at:our_end], their_lines[their_at:their_end]
        )
        out.append(piece.text)
        conflicts += piece.conflicts
        if line is not None:
            out.append(base_lines[line])
            at, our_at, their_at = line + 1, our_end + 1, their_end + 1
    return Merged(text="".join(out), conflicts=conflicts)


def _matches(base: list[str], other: list[str]) -> dict[int, int]:
    """Return for the kept lines of the base their positions in the other text."""
    matcher = difflib.SequenceMatcher(None, base, other, autojunk=False)
    return {
        block.a + offset: block.b + offset
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }


def _piece(base: list[str], ours: list[str], theirs: list[str]) -> Merged:
    if ours in (theirs, base):
        return Merged(text="".join(theirs), conflicts=0)
    if theirs == base:
        return Merged(text="".join(ours), conflicts=0)
    lines = (OURS, *_ended(ours), MIDDLE, *_ended(theirs), THEIRS)
    return Merged(text="".join(f"{line}\n" for line in lines), conflicts=1)


def _ended(lines: list[str]) -> list[str]:
    return [line.rstrip("\n") for line in lines]
