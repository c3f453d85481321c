"""Pattern: a module with cases, which may shorten the end of a block."""

from dataclasses import dataclass
from typing import Protocol, final

from fdl_cli.porter.ir.statements import Block, Stmt


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A forward before and the flow after; the two are compared as text."""

    before: str
    after: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The last `count` statements become `before`, if there is any, and `stmt`."""

    count: int
    stmt: Stmt
    before: Block = ()


class Pattern(Protocol):
    """The surface of a pattern module; `LEFT_ALONE` holds forwards which it must not match."""

    @property
    def CASES(self) -> tuple[Case, ...]:  # noqa: N802 - a constant of the module
        """Forwards that change."""

    @property
    def LEFT_ALONE(self) -> tuple[Case, ...]:  # noqa: N802 - a constant of the module
        """Forwards in which the pattern must find nothing."""

    def match(self, tail: Block, live: frozenset[str]) -> Match | None:
        """Look at the end of a block; `live` is read after it."""
