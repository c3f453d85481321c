"""Facts about code objects, kept by identity.

A hash of a code object reads all of its instructions since Python 3.12. With `functools.lru_cache` each
question would take time in proportion to the length of the function, and the recording of a flow of n steps,
which asks at each step, n². Here a question takes the same time always:

    @kept_by_identity
    def names(code): ...

    names(f.__code__) is names(f.__code__)      # computed once
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

_P = ParamSpec("_P")
_T = TypeVar("_T")
MOST: Final = 4096


def kept_by_identity(
    function: Callable[Concatenate[CodeType, _P], _T],
) -> Callable[Concatenate[CodeType, _P], _T]:
    """Return a function that computes each fact about a code object once.

    Args:
        function: takes a code object, and further arguments that can be hashed; all results are forgotten
            after `MOST` of them.
    """
    # An entry holds its code object, so that no other one gets the same identity.
    facts: dict[tuple[Any, ...], tuple[CodeType, _T]] = {}

    @wraps(function)
    def fact(code: CodeType, /, *args: _P.args, **named: _P.kwargs) -> _T:
        key = (id(code), *args, *named.items())
        known = facts.get(key)
        if known is None:
            known = code, function(code, *args, **named)
            if len(facts) >= MOST:
                facts.clear()
            facts[key] = known
        return known[1]

    return fact
