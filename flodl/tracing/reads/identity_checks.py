"""Identity checks between two objects that a flow reads: `self.a is self.b`, `layer in self.done`.

No hook reports `is`, as one reports `==` (see `attribute_hooks`).  The plan of a flow that compares two
different objects is therefore guarded by all of them staying different:

    if self.encoder.weight is not self.decoder.weight: ...
    # guard: len({id(self.encoder.weight), id(self.decoder.weight)}) == 2

Two places with one object are guarded where they are read: `self.b is self.a`.  Which objects a
comparison may concern is found in the bytecode: those that were read as `weight` here, all objects
where an operand is a parameter.
"""

from __future__ import annotations

import inspect
import re
from types import BuiltinMethodType, CodeType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Final, TypeAlias, final

from flodl.bytecode.decode import instructions
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import LOADS, STORES, Instruction, Kind
from flodl.bytecode.operands import Sources, operands
from flodl.tracing.reads.global_reads import require_followed_reads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Names: TypeAlias = frozenset[str] | None
"""Attributes that compared objects are read from; None if they may come from anywhere."""

_NOTHING: Final[frozenset[str]] = frozenset()
# Words whose results may belong to one object alone, also where another one is equal.
_ADDRESSES: Final = frozenset({"id", "hash", "__hash__"})
# Text that begins so makes a container for a guard; nothing else can be that container.
_MADE: Final = "(["


@final
class Comparisons:
    """The objects that the functions of one trace may compare by identity.

    Attributes:
        has_addresses: whether a function may use the address of an object as a number.
    """

    def __init__(self) -> None:
        self.has_addresses = False
        self._names: dict[int, Names] = {}
        self._read_as: dict[int, set[str]] = {}

    def add(self, function: int, code: CodeType) -> None:
        """Note a function that the flow may call, by its id.

        Raises:
            FlowError: it reads attributes in a way that nothing can follow.
        """
        require_followed_reads(code)
        self.has_addresses |= uses_addresses(code)
        if code.co_name != "__eq__":  # a hook reports which objects it compares
            self._names[function] = compared_names(code)

    def read(self, value: object, name: str) -> None:
        """Note the attribute that an object is read from."""
        self._read_as.setdefault(id(value), set()).add(name)

    def check(self, known: Mapping[int, tuple[object, str]], functions: set[int]) -> str:
        """Return the guard that the objects which some functions compare are different objects still.

        Args:
            known: the objects that the flow has read, with Python text that finds each, by id.
            functions: the ids of the functions.
        """
        asked = [self._names[each] for each in functions if each in self._names]
        names = frozenset[str]().union(*(each for each in asked if each is not None))
        places = sorted(
            place
            for key, (value, place) in known.items()
            if place[0] not in _MADE
            and not _is_bound_on_access(value, place, known)
            and (None in asked or names & {*self._read_as.get(key, ()), _last_key(place)})
        )
        if len(places) < 2:
            return ""
        return f"len({{{', '.join(f'id({place})' for place in places)}}}) == {len(places)}"


def _is_bound_on_access(
    value: object, place: str, known: Mapping[int, tuple[object, str]]
) -> bool:
    """Return True for a bound method that each access makes, such as `self.weight.size`.

    Two of them may get one address, one after the other, so that a guard on their ids holds by chance.
    """
    if not isinstance(value, (MethodType, BuiltinMethodType, MethodWrapperType)):
        return False
    owner = known.get(id(value.__self__))
    if owner is None or place != f"{owner[1]}.{value.__name__}":
        return False
    return inspect.getattr_static(value.__self__, value.__name__, None) is not value


def _last_key(place: str) -> str:
    """Return the key that finds an object in a dict, as in `vars(self.cfg)['a']`."""
    found = re.search(r"\['(\w+)'\]$", place)
    return found[1] if found else ""


@kept_by_identity
def uses_addresses(code: CodeType) -> bool:
    """Return True if the code may use the address of an object as a number."""
    return any(not _ADDRESSES.isdisjoint(inner.co_names) for inner in _nested(code))


@kept_by_identity
def compared_names(code: CodeType) -> Names:
    """Return the attributes whose objects the code compares with each other, None for unknown objects.

    Raises:
        BytecodeError: this version of Python or one of the instructions is unknown.
    """
    found = _NOTHING
    for inner in _nested(code):
        names = _compared(inner)
        if names is None:
            return None
        found |= names
    return found


def _compared(code: CodeType) -> Names:
    steps, taken = instructions(code), operands(code)
    stored: dict[str, Sources] = {}
    for step, sources in zip(steps, taken, strict=True):
        if step.kind in STORES:
            stored[step.name] = stored.get(step.name, frozenset()) | sources[0]
        if (step.kind, step.name) == (Kind.LOAD_GLOBAL, "id"):
            return None
    parameters = frozenset(code.co_varnames[: _arguments(code)])
    found = _NOTHING
    for step, sources in zip(steps, taken, strict=True):
        if step.kind not in (Kind.IS, Kind.CONTAINS):
            continue
        one, other = (_names(steps, each, stored, parameters) for each in sources)
        if _NOTHING in (one, other):
            continue  # one of them is a constant
        if one is None or other is None or step.kind is Kind.CONTAINS:
            return None
        found |= one | other
    return found


def _names(
    steps: tuple[Instruction, ...],
    sources: Sources,
    stored: dict[str, Sources],
    parameters: frozenset[str],
) -> Names:
    """Return the attributes that an operand may be read from; none if it is a constant."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [*sources]
    if not waiting:
        return None
    while waiting:
        step = steps[waiting.pop()]
        if step.kind is Kind.LOAD_ATTR:
            found.add(step.name)
        elif step.kind in LOADS and step.name in stored and step.name not in parameters:
            if step.name not in seen:
                seen.add(step.name)
                waiting += stored[step.name]
        elif step.kind is not Kind.LOAD_CONST:
            return None
    return frozenset(found)


def _arguments(code: CodeType) -> int:
    has_rest = bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_argcount + code.co_kwonlyargcount + has_rest


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)
