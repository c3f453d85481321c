"""Decisions: the places of the source that change, and their new form; no text is made here."""

from dataclasses import dataclass
from typing import final

from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.ir.findings import ClassOutcome, ClassStatus, Reason
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.statements import Stmt


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceStatement:
    """The statements of `stmt.sources` become this one statement."""

    stmt: Stmt


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """The statement at `span` is gone: another one has its effect."""

    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceExpression:
    """The expression at `span` becomes `expr`; the rest of its statement stays."""

    span: Span
    expr: Expr


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceWord:
    """The characters at `span` become one of our names (`flow`, or an imported name)."""

    span: Span
    word: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AddBase:
    """The base class that ends at `at` gets one more after it."""

    at: int
    word: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decorate:
    """The method whose `def` (or first decorator) starts at `at` gets a decorator line."""

    at: int
    word: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Wrap:
    """The expression at `span` becomes the only argument of `word(...)`, or of `word.method(...)`."""

    span: Span
    word: str
    method: str = ""


Edit = ReplaceStatement | Remove | ReplaceExpression | ReplaceWord | AddBase | Decorate | Wrap


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPlan:
    """The decision about one class (or value): status, edits, and how it reads."""

    name: str
    line: int
    status: ClassStatus
    edits: tuple[Edit, ...]
    words: tuple[str, ...]
    reasons: tuple[Reason, ...]
    ops_total: int
    ops_in_graph: int
    reading: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PortPlan:
    """All decisions about one file; `names` are flodl names and how they are written here."""

    classes: tuple[ClassPlan, ...]
    names: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]


__all__ = [
    "AddBase",
    "ClassOutcome",
    "ClassPlan",
    "Decorate",
    "Edit",
    "PortPlan",
    "Remove",
    "ReplaceExpression",
    "ReplaceStatement",
    "ReplaceWord",
    "Wrap",
]
