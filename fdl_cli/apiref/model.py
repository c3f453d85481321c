"""Data model of the API reference: public names, their members, and the words of their docstrings."""

from dataclasses import dataclass
from typing import Literal, final

Kind = Literal["class", "function", "value", "alias", "method", "property", "field", "module"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One name and its meaning: a parameter, a raised error or a kind of result."""

    name: str
    text: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """A Google-style docstring, taken apart."""

    summary: str = ""
    body: str = ""
    parameters: tuple[Described, ...] = ()
    returns: str = ""
    raises: tuple[Described, ...] = ()
    shape: str = ""
    examples: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One public name: `flodl.FlowBuilder`, or a member of it, `flodl.FlowBuilder.through`.

    `owner` is the class of a member and empty for all else; `inherited_from` names the base
    class that defines an inherited member. `file` is relative to the folder of the package.
    """

    name: str
    kind: Kind
    category: str
    owner: str
    signature: str
    doc: Doc
    file: str
    line: int
    since: str
    inherited_from: str = ""

    @property
    def short_name(self) -> str:
        """Return the name without the package: `FlowBuilder.through`."""
        return self.name.removeprefix("flodl.")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApiIndex:
    """All entries of one version of the runtime; members follow their class."""

    version: str
    entries: tuple[Entry, ...]

    @property
    def public(self) -> tuple[Entry, ...]:
        """Return the entries that are not members of a class."""
        return tuple(entry for entry in self.entries if not entry.owner)

    def members(self, owner: str) -> tuple[Entry, ...]:
        """Return the members of a class, by its full name."""
        return tuple(entry for entry in self.entries if entry.owner == owner)
