"""Imports the original where something that its models need not stops the import.

In this order: placeholders for packages that cannot be imported, package folders above the one
that says so (`from ..utils import x`), and files of a package whose `__init__.py` fails.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from flodl.verify.import_faults import find_fault
from flodl.verify.sides import Side, open_sides
from flodl.verify.standins.placeholders import PLACEHOLDERS

MOST_STEPS = 12
MOST_LEVELS = 3
LONGEST_REASON = 120
_BEYOND = ("attempted relative import beyond top-level", "attempted relative import with no known")


def open_eased(
    original: Path,
    ported: Path,
    search_path: Sequence[Path],
    ported_search_path: Sequence[Path] = (),
) -> tuple[Side, Side]:
    """Import the original as it can be, and describe the port the same way without importing it."""
    PLACEHOLDERS.clear()
    for levels in range(MOST_LEVELS + 1):
        first, second = open_sides(
            original, ported, search_path, ported_search_path, levels=levels
        )
        load_eased(first)
        if not _wants_more_folders(first):
            break
    else:
        first, second = open_sides(original, ported, search_path, ported_search_path)
        load_eased(first)
    second.bare = first.bare
    return first, second


def load_eased(side: Side) -> None:
    """Import a side; where a package stops that, import it again without the package.

    `side.refused` is what the import by itself ended with.
    """
    side.load()
    side.refused = side.refused or side.failure
    for _ in range(MOST_STEPS):
        if not _ease(side):
            return
        side.forget()
        side.load()


def eased_words(side: Side) -> str:
    """Return the end of a sentence that says without what the import was done."""
    words = ""
    if PLACEHOLDERS.names:
        words += f", with placeholders for {', '.join(PLACEHOLDERS.names)}"
    for name, reason in side.bare.items():
        words += f", without the `__init__` of {name}, which ends with {reason}"
    return words


def _ease(side: Side) -> bool:
    # A package that takes all the time of an import is none for this program here.
    failure = side.failure or side.overtime
    if failure is None:
        return False
    fault = find_fault(failure, side.folders)
    if fault is not None:
        if fault.inside is not None:  # what the package lacks, then the package
            added = PLACEHOLDERS.add_for_libraries(fault.module)
            return added or PLACEHOLDERS.add_module(fault.inside)
        if fault.name is None:
            return PLACEHOLDERS.add_module(fault.module)
        module = sys.modules.get(fault.module)
        return module is not None and PLACEHOLDERS.add_attribute(module, fault.name)
    if side.failed_parent is None or _wants_more_folders(side):
        return False
    side.bare[side.failed_parent] = failure.text[:LONGEST_REASON]
    return True


def _wants_more_folders(side: Side) -> bool:
    return side.failure is not None and any(words in side.failure.text for words in _BEYOND)
