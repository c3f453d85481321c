"""The order in which the classes of a file are proved: the largest and the most used ones first.

Example:
    `Net` constructs two `Block`, and `Block` a `Norm`. `Net` holds two classes, `Block` holds one and
    one class holds it, two hold `Norm`: each has the importance 2, and an unrelated `Loss` has 0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from flodl_verify.sources.class_sources import class_node

_TESTS = frozenset({"isinstance", "issubclass"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The numbers of wanted classes of a file that a class holds, and that hold it."""

    holds: int
    held_by: int

    @property
    def importance(self) -> int:
        """Both together."""
        return self.holds + self.held_by


def standings(namespace: Mapping[str, object], names: Iterable[str]) -> dict[str, Standing]:
    """Return the standing of each name of a file; a value has that of its class."""
    kinds = {name: _kind(namespace.get(name)) for name in names}
    home = namespace.get("__name__")
    own = {
        name: kind
        for name, kind in namespace.items()
        if isinstance(kind, type) and kind.__module__ == home
    }
    direct = {kind: frozenset(_mentioned(kind, own)) for kind in own.values()}
    wanted = set(kinds.values())
    held = {kind: _reached(kind, direct) & wanted for kind in wanted}
    return {
        name: Standing(
            holds=len(held[kind]), held_by=sum(kind in held[other] for other in wanted - {kind})
        )
        for name, kind in kinds.items()
    }


def _kind(value: object) -> type:
    return value if isinstance(value, type) else type(value)


def _mentioned(kind: type, own: Mapping[str, type]) -> Iterator[type]:
    """Yield the classes of a file that a class extends or mentions, but for a test of what something is."""
    node = class_node(kind)
    pending: list[ast.AST] = [node] if node is not None else []
    while pending:
        match pending.pop():
            case ast.Name(id=name) if name in own and own[name] is not kind:
                yield own[name]
            case ast.Call(func=ast.Name(id=name)) if name in _TESTS:
                pass
            case other:
                pending += ast.iter_child_nodes(other)


def _reached(kind: type, direct: Mapping[type, frozenset[type]]) -> frozenset[type]:
    seen: set[type] = set()
    pending = [kind]
    while pending:
        for inner in direct.get(pending.pop(), ()):
            if inner not in seen:
                seen.add(inner)
                pending.append(inner)
    return frozenset(seen - {kind})
