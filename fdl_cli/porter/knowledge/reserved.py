"""Names that every graph has: a class that uses one of them for itself is kept."""

from typing import Final

# A test compares this with the runtime, so that the two cannot drift apart.
RESERVED: Final = frozenset({
    "_abc_impl", "_definitions", "_forget", "_kinds", "_main", "_programs", "_set_plans",
    "_unrecorded", "build", "code", "describe", "detach_state", "dot", "end_epoch",
    "end_sequence", "end_step", "flow", "from_sequential", "has_state", "rebuild", "reset_state",
    "spec",
})  # fmt: skip
