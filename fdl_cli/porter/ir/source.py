"""Places in the user's text: spans of characters and the comments between them."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Span:
    """The characters `start` to `end` (exclusive) of the decoded file; `line` counts from 1."""

    start: int
    end: int
    line: int

    def covers(self, other: "Span") -> bool:
        """Return True if the other span lies inside this one."""
        return self.start <= other.start and other.end <= self.end


@final
@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Comment:
    """One comment, from its `#` to the end of the line; `alone` when nothing precedes it."""

    span: Span
    text: str
    alone: bool
