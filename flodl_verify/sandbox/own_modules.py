"""Concealment of the proof's modules from the compared code.

Code that tests `"flodl_verify" in sys.modules` would compute one thing here and another thing outside.
An import of these modules gives a second copy, and changes to it have no effect here.
"""

from __future__ import annotations

import sys
from types import ModuleType

import flodl

_NAMES = ("flodl_verify", "flodl.pytree")
# By name; pickles that hold classes of stand-ins find them here.
HIDDEN: dict[str, ModuleType] = {}


def hide() -> None:
    """Take the modules of the proof out of sight; those who have them keep them."""
    for name in [name for name in sys.modules if _is_own(name)]:
        HIDDEN[name] = sys.modules.pop(name)
    vars(flodl).pop("pytree", None)


def _is_own(name: str) -> bool:
    return any(name == own or name.startswith(f"{own}.") for own in _NAMES)
