"""Lists and dicts that a flow hands to a step, which fills or empties them: the flow's own follow.

A step gets a container of its own around the values of the call.  Where it is another one afterwards, the
plan makes the container first, hands it to the step, and takes the items out that the flow has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from flodl.errors import FlowError
from flodl.flow.callsite import call_site
from flodl.flow.containers import DICTS, LISTS
from flodl.flow.handle import Flow
from flodl.flow.values import leaves
from flodl.spec.graph import Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.flow.containers import Origin
    from flodl.flow.recorder import Recorder
    from flodl.spec.graph import NodeSpec


@final
@dataclass(slots=True, kw_only=True)
class Handed:
    """One container of a step: the flow's, the step's, and what was in it before.

    Attributes:
        place: position or name of the argument.
        mine: the container that the flow holds.
        given: the one that the step got.
        keys: the keys of a dict, before the step.
        items: the values, before the step.
        before: what the flow holds, by the identity of the value that stands for it.
        inside: the parts of all depths, before the step.
    """

    place: int | str
    mine: Any
    given: Any
    keys: tuple[Any, ...]
    items: tuple[Any, ...]
    before: dict[int, Any]
    inside: list[Any]

    def is_other(self) -> bool:
        """Say whether the step has changed the container.

        Raises:
            FlowError: it has changed one inside of it.
        """
        if _keys(self.given) == self.keys and _is_as(_items(self.given), self.items):
            if not _is_as(leaves(self.given), self.inside):
                kind = type(self.mine).__name__
                message = (
                    f"{call_site()}: a step changes a container inside of a {kind} that the flow gives it; "
                    "give it that container itself, or let the step return it"
                )
                raise FlowError(message)
            return False
        return True

    def is_known(self) -> bool:
        """Say whether the step has put in nothing new, and nobody outside the flow has the container."""
        return getattr(self.mine, "origin", None) is None and all(
            id(each) in self.before for each in _items(self.given)
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
    found = []
    for place, mine, given in zip(places, theirs, given_all, strict=True):
        if type(mine) not in (*LISTS, *DICTS) or mine is given:
            continue
        items = _items(given)
        found.append(
            Handed(
                place=place,
                mine=mine,
                given=given,
                keys=_keys(given),
                items=items,
                before=dict(zip(map(id, items), _items(mine), strict=False)),
                inside=leaves(given),
            )
        )
    return found


def follow(recorder: Recorder, changed: list[Handed]) -> int:
    """Change the flow's containers as the step that was recorded last has changed its own.

    Returns:
        The index that the step has now.
    """
    owners = _handed_as_values(recorder, [each for each in changed if not each.is_known()])
    index = len(recorder.nodes) - 1
    for each in changed:
        parts = _parts(recorder, each, owners.get(each.place))
        if type(each.mine) in LISTS:
            list.__setitem__(each.mine, slice(None), [part for _, part in parts])
        else:
            dict.clear(each.mine)
            dict.update(each.mine, dict(parts))
    return index


def _handed_as_values(recorder: Recorder, changed: list[Handed]) -> dict[int | str, Flow]:
    """Record the containers as values before the last step, and let it take those."""
    step = recorder.nodes.pop()
    owners = {}
    for each in changed:
        origin = getattr(each.mine, "origin", None)
        owner = _made(recorder, step, each) if origin is None else _reached(each, origin)
        owners[each.place] = owner
        step = _taking(step, each.place, Ref(object.__getattribute__(owner, "_node")))
    recorder.nodes.append(replace(step, index=len(recorder.nodes)))
    return owners


def _reached(each: Handed, origin: Origin) -> Flow:
    """Return the caller's container, changed as the copy was that the step got."""
    owner = origin.written()
    theirs = object.__getattribute__(owner, "_value")
    if theirs is not each.given:
        theirs.clear()
        (theirs.extend if type(theirs) is list else theirs.update)(each.given)
    return owner


def _made(recorder: Recorder, step: NodeSpec, each: Handed) -> Flow:
    word = "list" if type(each.mine) in LISTS else "dict"
    made = replace(
        step,
        index=len(recorder.nodes),
        kind="function",
        target=word,
        args=(recorder.encoder.encode(each.mine),),
        kwargs=(),
        name=recorder.names.counted(word),
        variable="",
        plain=False,
    )
    recorder.nodes.append(made)
    return Flow(recorder, made.index, each.given, None)


def _taking(step: NodeSpec, place: int | str, owner: Ref) -> NodeSpec:
    if isinstance(place, int):
        return replace(step, args=(*step.args[:place], owner, *step.args[place + 1 :]))
    pairs = ((name, owner if name == place else arg) for name, arg in step.kwargs)
    return replace(step, kwargs=tuple(pairs))


def _parts(recorder: Recorder, each: Handed, owner: Flow | None) -> list[tuple[Any, Any]]:
    """Return what is in the step's container now, as the flow has it."""
    keys = list(each.given) if type(each.mine) in DICTS else list(range(len(each.given)))
    values = [each.given[key] for key in keys]
    if owner is None:
        return [(key, each.before[id(value)]) for key, value in zip(keys, values, strict=True)]
    if type(each.mine) in LISTS:
        # Another number of items, in another call, is an error and no other result.
        found: Any = recorder.unpack(owner, len(keys))
    else:
        found = [owner[key] for key in keys]
    return [
        (key, each.before.get(id(value), item))
        for key, value, item in zip(keys, values, found, strict=True)
    ]


def _keys(container: Any) -> tuple[Any, ...]:
    return tuple(container) if type(container) in DICTS else ()


def _items(container: Any) -> tuple[Any, ...]:
    return tuple(container.values() if type(container) in DICTS else container)


def _is_as(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
