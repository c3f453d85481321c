"""Lists and dicts that a flow hands to a step, which fills or empties them: the flow's own follow.

A step gets a container of its own around the values of the call.  Where it is another one afterwards, the
plan makes the container first, hands it to the step, and takes the items out that the flow has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from flodl.errors import FlowError
from flodl.spec.graph import Ref
from flodl.tracing.callsite import call_site
from flodl.tracing.containers import DICTS, LISTS, origin_of
from flodl.tracing.proxy import Flow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.spec.graph import NodeSpec
    from flodl.tracing.containers import Origin
    from flodl.tracing.tracer import Tracer


@final
@dataclass(slots=True, kw_only=True)
class Handed:
    """One container of a step: the flow's, the step's, and what was in it before.

    Attributes:
        place: position or name of the argument, or of the part of the container around it.
        mine: the container that the flow holds.
        given: the one that the step got.
        keys: the keys of a dict, before the step.
        items: the values, before the step.
        before: what the flow holds, by the identity of the value that stands for it.
        inside: the containers in this one, by the identity of those that the step got.
    """

    place: Any
    mine: Any
    given: Any
    keys: tuple[Any, ...]
    items: tuple[Any, ...]
    before: dict[int, Any]
    inside: dict[int, Handed]

    def is_other(self) -> bool:
        """Say whether the step has changed the container, or one inside."""
        return self._has_moved() or self._is_other_inside()

    def is_known(self) -> bool:
        """Say whether the step has put in nothing new, and nobody outside the flow has the container."""
        known = all(id(each) in self.before for each in _items(self.given))
        return known and origin_of(self.mine) is None and not self._is_other_inside()

    def require_own(self) -> None:
        """Require that no container inside that the step has changed is the caller's.

        Raises:
            FlowError: one is, and would not be changed in later calls.
        """
        for each in self.inside.values():
            if each.is_other() and origin_of(each.mine) is not None:
                kind = "list" if type(self.mine) in LISTS else "dict"
                message = (
                    f"{call_site()}: a step changes a container inside of a {kind} that the caller passed; "
                    "give it that container itself, or let the step return it"
                )
                raise FlowError(message)
            each.require_own()

    def _has_moved(self) -> bool:
        items = _items(self.given)
        return _keys(self.given) != self.keys or not _is_as(items, self.items)

    def _is_other_inside(self) -> bool:
        return any(each.is_other() for each in self.inside.values())


def _handed(place: Any, mine: Any, given: Any) -> Handed:
    items, held = _items(given), _items(mine)
    places = _keys(given) or range(len(items))
    inside = {
        id(part): _handed(key, own, part)
        for key, own, part in zip(places, held, items, strict=False)
        if type(own) in (*LISTS, *DICTS) and own is not part
    }
    return Handed(
        place=place,
        mine=mine,
        given=given,
        keys=_keys(given),
        items=items,
        before=dict(zip(map(id, items), held, strict=False)),
        inside=inside,
    )


def handed(theirs: tuple[Any, ...], values: Sequence[Any], named: dict[str, Any]) -> list[Handed]:
    """Return the containers among the arguments of a step, before it is carried out.

    Args:
        theirs: the arguments as the flow has them, those by name last.
        values: what the step gets by position.
        named: what it gets by name.
    """
    given_all = (*values, *named.values())
    places: tuple[int | str, ...] = (*range(len(values)), *named)
    return [
        _handed(place, mine, given)
        for place, mine, given in zip(places, theirs, given_all, strict=True)
        if type(mine) in (*LISTS, *DICTS) and mine is not given
    ]


def follow(tracer: Tracer, changed: list[Handed]) -> int:
    """Change the flow's containers as the step that was recorded last has changed its own.

    Returns:
        The index that the step has now.
    """
    owners = _handed_as_values(tracer, [each for each in changed if not each.is_known()])
    index = len(tracer.nodes) - 1
    for each in changed:
        _fill(tracer, each, owners.get(each.place))
    return index


def _fill(tracer: Tracer, each: Handed, owner: Flow | None) -> None:
    """Put into a container of the flow what is in the step's, and into those inside of it."""
    parts = _parts(tracer, each, owner)
    if type(each.mine) in LISTS:
        list.__setitem__(each.mine, slice(None), [part for _, part in parts])
    else:
        dict.clear(each.mine)
        dict.update(each.mine, dict(parts))


def _handed_as_values(tracer: Tracer, changed: list[Handed]) -> dict[int | str, Flow]:
    """Record the containers as values before the last step, and let it take those."""
    step = tracer.nodes.pop()
    owners = {}
    for each in changed:
        each.require_own()
        origin = origin_of(each.mine)
        owner = _made(tracer, step, each) if origin is None else _reached(each, origin)
        owners[each.place] = owner
        step = _taking(step, each.place, Ref(object.__getattribute__(owner, "_node")))
    tracer.nodes.append(replace(step, index=len(tracer.nodes)))
    return owners


def _reached(each: Handed, origin: Origin) -> Flow:
    """Return the caller's container, changed as the copy was that the step got."""
    owner = origin.written()
    theirs = object.__getattribute__(owner, "_value")
    if theirs is not each.given:
        theirs.clear()
        (theirs.extend if type(theirs) is list else theirs.update)(each.given)
    return owner


def _made(tracer: Tracer, step: NodeSpec, each: Handed) -> Flow:
    word = "list" if type(each.mine) in LISTS else "dict"
    made = replace(
        step,
        index=len(tracer.nodes),
        kind="function",
        target=word,
        args=(tracer.encoder.encode(each.mine),),
        kwargs=(),
        name=tracer.names.counted(word),
        variable="",
        plain=False,
    )
    tracer.nodes.append(made)
    return Flow(tracer, made.index, each.given, None)


def _taking(step: NodeSpec, place: int | str, owner: Ref) -> NodeSpec:
    if isinstance(place, int):
        return replace(step, args=(*step.args[:place], owner, *step.args[place + 1 :]))
    pairs = ((name, owner if name == place else arg) for name, arg in step.kwargs)
    return replace(step, kwargs=tuple(pairs))


def _parts(tracer: Tracer, each: Handed, owner: Flow | None) -> list[tuple[Any, Any]]:
    """Return what is in the step's container now, as the flow has it."""
    keys = list(each.given) if type(each.mine) in DICTS else list(range(len(each.given)))
    values = [each.given[key] for key in keys]
    if owner is None:
        return [(key, each.before[id(value)]) for key, value in zip(keys, values, strict=True)]
    if type(each.mine) in LISTS:
        # Another number of items, in another call, is an error and no other result.
        found: Any = tracer.unpack(owner, len(keys))
    else:
        found = [owner[key] for key in keys]
    parts = []
    for key, value, item in zip(keys, values, found, strict=True):
        inner = each.inside.get(id(value))
        if inner is not None and inner.is_other():
            _fill(tracer, inner, item)
        parts.append((key, each.before.get(id(value), item)))
    return parts


def _keys(container: Any) -> tuple[Any, ...]:
    return tuple(container) if type(container) in DICTS else ()


def _items(container: Any) -> tuple[Any, ...]:
    return tuple(container.values() if type(container) in DICTS else container)


def _is_as(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
