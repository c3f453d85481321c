"""Lists and dicts that a flow passes to a step, which fills or empties them: the flow's own follow.

A step gets a copy of the container around the values of the call.  Where it may be another one afterwards,
the plan makes the container first, passes it to the step, and takes out the items that the flow has not
seen.  Which items those are, and where the others went, is a guard.

Worked example.  For

    items = [x]
    call(fill, items, x)          # appends x + 1 if x.sum() > 0
    return items[-1]

the plan that a positive `x` leaves is

    list_1 = list([x])
    fill_1 = fill(list_1, x)
    arrangement_1 = arrangement(list_1, x)      # (0, -1): the first item is x, the second one is new
    if arrangement_1 != (0, -1): side exit
    item_1, item_2 = list_1
    return item_2

A negative `x` leaves by the side exit, and its bridge returns `x`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from flodl.errors import FlowError
from flodl.ir.graph import Ref
from flodl.tracing.callsite import call_site
from flodl.tracing.containers import DICTS, LISTS, origin_of
from flodl.tracing.flow_value import unwrap
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import map_leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.graph.side_exits import Replay
    from flodl.ir.graph import NodeSpec
    from flodl.tracing.containers import Origin
    from flodl.tracing.tracer import Tracer

# Containers inside of each other, of a guard; a list may hold itself.
_DEEPEST = 4
_PLAIN_KEYS = (str, int, bool, float, type(None))


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
        before: the values of the flow, by the identity of the value that stands for it.
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
        """Return True if the step has changed the container, or one inside."""
        return self._has_moved() or self._is_other_inside()

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
    return _noted(place, mine, given, _keys(given), items, inside)


def _noted(
    place: Any,
    mine: Any,
    given: Any,
    keys: tuple[Any, ...],
    items: tuple[Any, ...],
    inside: dict[int, Handed],
) -> Handed:
    before = dict(zip(map(id, items), _items(mine), strict=False))
    return Handed(
        place=place, mine=mine, given=given, keys=keys, items=items, before=before, inside=inside
    )


def handed(theirs: tuple[Any, ...], values: Sequence[Any], named: dict[str, Any]) -> list[Handed]:
    """Return the containers among the arguments of a step, before it is carried out.

    Args:
        theirs: the arguments as the flow has them, those by name last.
        values: the positional arguments of the step.
        named: its keyword arguments.
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
    owners = _handed_as_values(tracer, changed)
    index = len(tracer.nodes) - 1
    for each in changed:
        _guard(tracer, each, owners[each.place])
    for each in changed:
        _fill(tracer, each, owners[each.place])
    return index


def arrangement(container: Any, *known: Any) -> tuple[Any, ...]:
    """Return where the items of a container come from.

    Args:
        container: a list or dict.
        known: values that it may hold.

    Returns:
        For each item the position of the known value that it is, the arrangement of a container inside,
        or -1; the keys of a dict before that.
    """
    return _arrangement(container, known, _DEEPEST)


def _arrangement(container: Any, known: tuple[Any, ...], depth: int) -> tuple[Any, ...]:
    found: list[Any] = [_keys(container)] if type(container) in DICTS else []
    for item in _items(container):
        place: Any = next((place for place, each in enumerate(known) if each is item), -1)
        if place == -1 and depth and _has_plain_keys(item):
            place = _arrangement(item, known, depth - 1)
        found.append(place)
    return tuple(found)


def _has_plain_keys(item: Any) -> bool:
    """Return True for a list, and for a dict whose keys a guard can name."""
    if type(item) in DICTS:
        return all(type(key) in _PLAIN_KEYS for key in item)
    return type(item) in LISTS


def _guard(tracer: Tracer, each: Handed, owner: Flow) -> None:
    """Guard the arrangement of a container after the step that may have changed it."""
    keys = _keys(each.given)
    if not all(type(key) in _PLAIN_KEYS for key in keys):
        odd = next(key for key in keys if type(key) not in _PLAIN_KEYS)
        message = (
            f"{call_site()}: a step fills a dict with a key of type {type(odd).__name__}; use texts or "
            "numbers as keys, or let the step return what the flow needs"
        )
        raise FlowError(message)
    target = tracer.encoder.constant(arrangement, "arrangement", guarded=False).key
    site, tracer.forced_site = tracer.forced_site, tracer.nodes[-1].site
    try:
        found = tracer.step("function", target, (owner, *_flows(each)), compute=arrangement)
        tracer.guards.ask(found, lambda value: value, "the items of a container")
    finally:
        tracer.forced_site = site


def _flows(each: Handed) -> list[Flow]:
    own = [held for held in each.before.values() if type(held) is Flow]
    return own + [flow for inner in each.inside.values() for flow in _flows(inner)]


def step_of(replay: Replay, node: NodeSpec) -> int:
    """Return the index that a step had in the plan that a pass has left, behind its containers."""
    index = node.index
    while _is_made_for(replay.nodes[index], node):
        index += 1
    return index


def replayed(replay: Replay, node: NodeSpec, theirs: tuple[Any, ...]) -> list[Handed]:
    """Return the containers that a step which is not carried out again has got.

    Args:
        replay: the pass so far.
        node: the step as it is recorded now, with containers for arguments.
        theirs: the arguments as the flow has them, those by name last.
    """
    done = replay.nodes[step_of(replay, node)]
    places: tuple[Any, ...] = (*range(len(theirs) - len(node.kwargs)), *dict(node.kwargs))
    now = (*node.args[: len(theirs) - len(node.kwargs)], *dict(node.kwargs).values())
    before = (*done.args[: len(theirs) - len(node.kwargs)], *dict(done.kwargs).values())
    found = []
    for place, mine, arg, old in zip(places, theirs, now, before, strict=False):
        if type(mine) in (*LISTS, *DICTS) and type(old) is Ref and old != arg:
            found.append(_replayed(place, mine, replay.values[old.node]))
    return found


def _replayed(place: Any, mine: Any, given: Any) -> Handed:
    """Return a container that a step has changed already."""
    held = _items(mine)
    places = _keys(mine) or range(len(held))
    parts = dict(zip(_keys(given) or range(len(given)), _items(given), strict=True))
    inside = {
        id(parts[key]): _replayed(key, own, parts[key])
        for key, own in zip(places, held, strict=True)
        if type(own) in (*LISTS, *DICTS) and type(parts.get(key)) in (list, dict)
    }
    items = tuple(map_leaves(each, unwrap) for each in held)
    return _noted(place, mine, given, _keys(mine), items, inside)


def _is_made_for(done: NodeSpec, node: NodeSpec) -> bool:
    """Return True if a node of the plan gives a container to the step behind it."""
    made = done.kind == "input" or (done.kind == "function" and done.target in ("list", "dict"))
    return made and (done.kind, done.target) != (node.kind, node.target)


def _fill(tracer: Tracer, each: Handed, owner: Flow) -> None:
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


def _parts(tracer: Tracer, each: Handed, owner: Flow) -> list[tuple[Any, Any]]:
    """Return the present content of the step's container, as the flow has it."""
    keys = list(each.given) if type(each.mine) in DICTS else list(range(len(each.given)))
    values = [each.given[key] for key in keys]
    if type(each.mine) in LISTS:
        found: Any = tracer.unpack(owner, len(keys))
    else:
        found = [owner[key] for key in keys]
    parts = []
    for key, value, item in zip(keys, values, found, strict=True):
        inner = each.inside.get(id(value))
        if inner is not None and inner.is_other():
            _fill(tracer, inner, item)
        known = each.before.get(id(value), item)
        parts.append((key, known if inner is not None or type(known) is Flow else item))
    return parts


def _keys(container: Any) -> tuple[Any, ...]:
    return tuple(container) if type(container) in DICTS else ()


def _items(container: Any) -> tuple[Any, ...]:
    return tuple(container.values() if type(container) in DICTS else container)


def _is_as(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
