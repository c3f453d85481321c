"""Arguments that a constructor requires when it refuses a call without them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

from torch import nn

MAX_QUESTIONS = 3
_WORD = re.compile(r"[A-Za-z_]\w*")

Guess = Callable[[inspect.Parameter], object]


def asked_for(
    made: type, given: Mapping[str, object], refusal: str, guess: Guess
) -> dict[str, object]:
    """Return values for the parameters that a refusal names as missing.

    A constructor that takes `**kwargs` passes them to the one above it, whose parameters count, too.
    """
    words = set(_WORD.findall(refusal)) - given.keys()
    found: dict[str, object] = {}
    for item in _parameters(made):
        if item.name in words and (item.default is item.empty or not item.default):
            found.setdefault(item.name, True if item.default is False else guess(item))
    return found


def own_parameters(made: type) -> list[inspect.Parameter]:
    """Return the parameters of a constructor, without `self`."""
    # Asked for its signature, a class may show that of its metaclass.
    found = next(vars(kind)["__init__"] for kind in made.__mro__ if "__init__" in vars(kind))
    return list(inspect.signature(found).parameters.values())[1:]


def _parameters(made: type) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a constructor, and of those above it that get its `**kwargs`."""
    for kind in made.__mro__:
        if "__init__" not in vars(kind) or kind in {nn.Module, object}:
            continue
        own = own_parameters(kind)
        yield from (
            item for item in own if item.kind not in {item.VAR_POSITIONAL, item.VAR_KEYWORD}
        )
        if all(item.kind is not item.VAR_KEYWORD for item in own):
            return
