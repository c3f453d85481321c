"""The change of a port as a unified diff."""

import difflib


def unified(before: str, after: str, name: str, new_name: str) -> str:
    """Return the diff of two texts, empty when they are the same."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, new_name
    )
    # A last line without a line break would run into the next one.
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
