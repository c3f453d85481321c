"""Names for recorded things: functions as importable text, nodes as `<kind>_<n>`, constants."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, final

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMESPACES: tuple[tuple[str, Any], ...] = (
    ("F", F),
    ("torch", torch),
    ("math", math),
    ("operator", operator),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
    ("torch.nn.init", torch.nn.init),
    ("torch._C._nn", torch._C._nn),  # some functions of F live only here
)


_NUMBERS = (bool, int, float)


def importable_name(function: Callable[..., Any]) -> str:
    """Return text such as `F.relu` that generated code can use for a function, or "" if there is none."""
    try:
        name = function.__name__
    except AttributeError:
        return ""
    if any(function is each for each in _NUMBERS):
        return name
    for prefix, namespace in _NAMESPACES:
        if vars(namespace).get(name) is function:
            return f"{prefix}.{name}"
    return ""


def plain_name(thing: object) -> str:
    """Return an identifier that reminds of a callable or object."""
    named = isinstance(thing, type) or "__name__" in dir(thing)
    name = vars(type(thing)).get("__name__") if not named else getattr(thing, "__name__", "")
    name = name if isinstance(name, str) and name else type(thing).__name__
    text = re.sub(r"\W", "_", name).strip("_")
    return "function" if text in ("", "lambda") else text


@final
class Names:
    """Hands out names that are unique within one graph."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: Counter[str] = Counter()

    def counted(self, kind: str) -> str:
        """Return `<kind>_<n>` with n counted per kind, so that other kinds are not renumbered."""
        while True:
            self._counts[kind] += 1
            name = f"{kind}_{self._counts[kind]}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def preferred(self, name: str) -> str:
        """Return the name itself if it is free, else the name with the next free number from 2 on."""
        candidate, count = name, 1
        while candidate in self._taken:
            count += 1
            candidate = f"{name}_{count}"
        self._taken.add(candidate)
        return candidate
