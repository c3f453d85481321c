"""Import of the original where something stops it that its models do not need.

In this order: placeholders for packages that cannot be imported, package folders above the one
that says so (`from ..utils import x`), and files of a package whose `__init__.py` fails.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from flodl_verify.protocol import Request
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.import_faults import find_fault
from flodl_verify.sandbox.isolated_import import Label, Side, open_sides
from flodl_verify.sandbox.placeholders import PLACEHOLDERS

MOST_STEPS = 12
MOST_LEVELS = 3
LONGEST_REASON = 120
_BEYOND = ("attempted relative import beyond top-level", "attempted relative import with no known")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """With what, and without what, an original could be imported; its port is imported alike.

    `levels` folders above the outermost package are packages as well; `bare` are packages whose
    `__init__` does not run, and why; the rest are placeholders.
    """

    levels: int
    bare: Mapping[str, str]
    modules: tuple[str, ...]
    libraries: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]

    def as_fields(self) -> dict[str, Any]:
        """Return the settings as values of JSON."""
        return asdict(self)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> ImportSettings:
        """Return the settings that values of JSON stand for."""
        return cls(
            levels=int(fields["levels"]),
            bare=dict(fields["bare"]),
            modules=tuple(fields["modules"]),
            libraries=tuple(fields["libraries"]),
            attributes=tuple((module, name) for module, name in fields["attributes"]),
        )


def open_original(request: Request, text: bytes) -> tuple[Side, ImportSettings]:
    """Import an original as it can be; also return how that was done."""
    PLACEHOLDERS.clear()
    for levels in range(MOST_LEVELS + 1):
        side = _side_of(request, "original", text, levels)
        load_eased(side)
        if not _wants_more_folders(side):
            break
    else:
        levels = 0
        side = _side_of(request, "original", text, levels)
        load_eased(side)
    settings = ImportSettings(
        levels=levels,
        bare=side.bare,
        modules=PLACEHOLDERS.modules,
        libraries=PLACEHOLDERS.libraries,
        attributes=PLACEHOLDERS.attributes,
    )
    return side, settings


def open_port(request: Request, settings: ImportSettings, text: bytes) -> Side:
    """Describe a port that is imported as its original was; nothing is imported yet."""
    PLACEHOLDERS.add_all(settings.modules, settings.libraries)
    for module, name in settings.attributes:
        found = attempt(lambda module=module: importlib.import_module(module))  # type: ignore[misc]
        if not isinstance(found, Failure):
            PLACEHOLDERS.add_attribute(found, name)
    side = _side_of(request, "port", text, settings.levels)
    side.bare = dict(settings.bare)
    return side


def _side_of(request: Request, label: Label, text: bytes, levels: int) -> Side:
    sides = open_sides(
        request.original,
        request.ported,
        request.search_path,
        request.ported_search_path,
        levels=levels,
        text=text,
    )
    return next(side for side in sides if side.label == label)


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
        if fault.inside is not None:  # the missing part of the package, then the package
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
