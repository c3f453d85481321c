"""Names that every graph has: a class that uses one of them for itself is kept."""

from typing import Final

RESERVED: Final = frozenset({
    "build", "code", "describe", "dot", "flow", "rebuild", "spec",
})  # fmt: skip
