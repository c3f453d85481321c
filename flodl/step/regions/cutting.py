"""Cut of a recorded step into regions.

Each operation becomes a number: its name, its settings and the form of its result. `find_repeats` finds
the copies, and the stretches between them are regions too. Two stretches are calls of one region if
their wiring is the same: which operation takes the result of which, and which come from outside.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from flodl.step.regions.chain import Call, Chain, Form, Region
from flodl.step.regions.repeats import Repeat, find_repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

# A region costs the compiler four seconds, as much as some 150 operations, so a short step stays whole.
_LEAST_OPERATIONS = 3_000
_LEAST_SAVED = 200
_LEAST_SHARE = 0.5
_MOST_SHARE = 0.75
# These return views without telling so. Where an LSTM writes to one, a compiler would leave its base as it
# was, and the region that splits the base again would read the old values. So regions take the open forms.
_aten = torch.ops.aten
_SILENT_VIEWS: dict[Any, Any] = {
    _aten.unsafe_split.Tensor: _aten.split.Tensor,
    _aten.unsafe_split_with_sizes.default: _aten.split_with_sizes.default,
}
# So few operations are called one by one where the step does so once, and they change nothing in place:
# those of an update read and write whole parameters.
_SMALL = 64


def cut(graph: fx.Graph, examples: Sequence[Tensor]) -> Chain | None:
    """Return a recorded step as a chain of regions; None where few of its operations repeat.

    `examples` have the form of the graph's inputs. None too where a region would change a tensor
    behind the back of another one, which holds a view of it.
    """
    if len(graph.nodes) < _LEAST_OPERATIONS:
        return None
    values = _Values(graph, examples)
    repeats = find_repeats(values.tokens(), _LEAST_SAVED)
    if sum(each.saved for each in repeats) < _LEAST_SHARE * len(values.operations):
        return None
    bounds = [0]
    for each in repeats:
        start = values.best_start(each)
        bounds += [start + each.period * copy for copy in range(each.count + 1)]
    bounds = sorted({*bounds, len(values.operations)})
    parts = [_Stretch(values, start, end) for start, end in itertools.pairwise(bounds)]
    for stretches in (_sharing(values, parts), parts):
        if _is_safe(values, stretches) and _saves(values, stretches):
            return _chain(values, stretches)
    return None


def _sharing(values: _Values, parts: Sequence[_Stretch]) -> list[_Stretch]:
    """Return stretches that share a region where only the views that they take differ.

    The copies of an LSTM's time step take `x[0]`, `x[1]` and so on. Made again in each copy, they would
    be different regions; as inputs they are not.
    """
    tokens = values.tokens()
    alike: dict[tuple[int, ...], list[_Stretch]] = {}
    for part in parts:
        alike.setdefault(tuple(tokens[part.start : part.end]), []).append(part)
    passed = {
        node
        for copies in alike.values()
        for operations in zip(*(each.own for each in copies), strict=True)
        for taken in zip(*map(values.sources, operations), strict=True)
        if len({values.description(node) for node in taken}) > 1
        for node in taken
        if is_view(node) and isinstance(values.value(node), Tensor)
    }
    return [_Stretch(values, part.start, part.end, passed) for part in parts]


def _saves(values: _Values, parts: Sequence[_Stretch]) -> bool:
    """Return True if the regions together have few operations, so that compiling each of them pays."""
    regions = {part.key: len(part.own) + len(part.again) for part in parts}
    return sum(regions.values()) <= _MOST_SHARE * len(values.operations)


@final
class _Values:
    """The operations of a graph, and which tensors are views of which.

    Attributes:
        inputs: the placeholders.
        operations: the calls, in order.
        results: the values that the graph returns.
        at: operation -> its position.
    """

    def __init__(self, graph: fx.Graph, examples: Sequence[Tensor]) -> None:
        self.inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self.operations = [node for node in graph.nodes if node.op == "call_function"]
        (output,) = (node for node in graph.nodes if node.op == "output")
        self.at = {node: number for number, node in enumerate(self.operations)}
        self._values: dict[fx.Node, Any] = dict(zip(self.inputs, examples, strict=True))
        self._values |= {node: node.meta["val"] for node in self.operations}
        # `y = x.add_(1)`: whoever takes y takes x, as it is then.
        self._same: dict[fx.Node, fx.Node] = {}
        self._root: dict[fx.Node, fx.Node] = {node: node for node in self.inputs}
        self._changes: dict[fx.Node, list[int]] = {}
        self._settings: dict[fx.Node, tuple[str, str, str]] = {}
        for node in self.operations:
            self._note(node)
        self.results = [self.taken(each) for each in pytree.tree_leaves(list(output.args))]
        self.users: dict[fx.Node, list[int]] = {}
        for number, node in enumerate(self.operations):
            for each in self.sources(node):
                self.users.setdefault(each, []).append(number)

    def _note(self, node: fx.Node) -> None:
        changed = [self.taken(each) for each in _written(node)]
        for each in changed:
            self._changes.setdefault(self._root[each], []).append(self.at[node])
        viewed = [self.taken(each) for each in _viewed(node)]
        self._root[node] = self._root[viewed[0]] if viewed else node
        if len(changed) == 1 and isinstance(self._values[node], Tensor):
            self._same[node] = changed[0]

    def taken(self, node: fx.Node) -> fx.Node:
        """Return the tensor that a node stands for: an operation in place returns its argument."""
        return self._same.get(node, node)

    def value(self, node: fx.Node) -> Any:
        """Return a value of the form of a node's."""
        return self._values[node]

    def changes_of(self, node: fx.Node) -> Sequence[int]:
        """Return the positions of the operations that change a tensor, or what it is a view of."""
        return self._changes.get(self._root[node], ())

    def sources(self, node: fx.Node) -> list[fx.Node]:
        """Return the nodes that an operation takes."""
        return [self.taken(each) for each in node.all_input_nodes]

    def tokens(self) -> list[int]:
        """Return a number for each operation, equal for equal names, settings and results."""
        numbers: dict[Hashable, int] = {}
        return [numbers.setdefault(self.settings(node), len(numbers)) for node in self.operations]

    def settings(self, node: fx.Node) -> tuple[str, str, str]:
        """Return the name of an operation, its arguments without tensors, and the form of its result."""
        if node not in self._settings:
            given = fx.node.map_arg((node.args, node.kwargs), lambda _: "*")
            self._settings[node] = str(node.target), repr(given), _form_text(self._values[node])
        return self._settings[node]

    def description(self, node: fx.Node) -> Hashable:
        """Return how a view is made of its base; the same for all tensors that are no views."""
        if node not in self.at or not is_view(node):
            return None
        return self.settings(node), *map(self.description, self.sources(node))

    def best_start(self, repeat: Repeat) -> int:
        """Return the start, within the slack, where the fewest values cross from copy to copy."""

        def crossing(start: int) -> int:
            inside = range(start, start + repeat.period)
            left = [
                self._values[node]
                for node in self.operations[start : inside.stop]
                if any(user >= inside.stop for user in self.users.get(node, ()))
                and not is_view(node)
            ]
            return sum(1 if isinstance(each, Tensor) else 1_000 for each in left)

        return min(range(repeat.start, repeat.start + repeat.slack + 1), key=crossing)


def _is_safe(values: _Values, parts: Sequence[_Stretch]) -> bool:
    """Return True if the stretches can run on their own.

    A compiled region may return a copy where the operation returned a view, so no other one may
    change what it returns, nor what that is a view of. Lists of tensors stay within a region.
    """
    home = [number for number, part in enumerate(parts) for _ in part.own]
    for number, node in enumerate(values.operations):
        for each in map(values.taken, _written(node)):
            if each in values.at and home[values.at[each]] != home[number]:
                return False
    ends = itertools.accumulate(len(part.own) for part in parts)
    last_use = {node: end for part, end in zip(parts, ends, strict=True) for node in part.outside}
    last_use |= {node: len(home) for node in values.results}
    for node, last in last_use.items():
        if node not in values.at:
            continue
        if not isinstance(values.value(node), Tensor):
            return False
        number = values.at[node]
        later = (change for change in values.changes_of(node) if number < change <= last)
        if any(home[change] != home[number] for change in later):
            return False
    return True


def _written(node: fx.Node) -> list[fx.Node]:
    """Return the arguments that an operation writes to."""
    return [each for each, write in _aliased(node) if write]


def _viewed(node: fx.Node) -> list[fx.Node]:
    """Return the arguments that the result of an operation may be a view of."""
    if node.target is operator.getitem or node.target in _SILENT_VIEWS:
        return node.all_input_nodes
    return [each for each, _ in _aliased(node)]


def is_view(node: fx.Node) -> bool:
    """Return True if an operation makes nothing but a view of a tensor, or takes one from a list of them."""
    if node.target is operator.getitem:
        (source,) = node.all_input_nodes
        return source.op == "call_function" and is_view(source)
    return bool(_viewed(node)) and not _written(node)


def _aliased(node: fx.Node) -> Iterator[tuple[fx.Node, bool]]:
    """Yield the arguments that share memory with a result or are written to, and which of the two."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    for number, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is None:
            continue
        given = node.kwargs.get(argument.name)
        if given is None and number < len(node.args):
            given = node.args[number]
        for each in pytree.tree_leaves(_plain(given)):
            if isinstance(each, fx.Node):
                yield each, argument.alias_info.is_write


def _plain(value: Any) -> Any:
    """Return lists and dictionaries of torch.fx as Python's own."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _form(value: Tensor) -> Form:
    return tuple(value.shape), value.stride()


def _form_text(value: Any) -> str:
    leaves = pytree.tree_leaves(value)
    return " ".join(
        f"{each.dtype}{_form(each)}{each.device}" if isinstance(each, Tensor) else repr(each)
        for each in leaves
    )


@final
class _Stretch:
    """A stretch of operations with its wiring, in which only order and position name a tensor.

    Attributes:
        start: the position of its first operation.
        end: the position after the last one.
        key: equal for the calls of one region.
        own: its operations.
        again: views of other stretches that it makes again, but for those in `passed`.
        outside: the tensors that it takes, in order of their first use.
    """

    def __init__(
        self, values: _Values, start: int, end: int, passed: Collection[fx.Node] = ()
    ) -> None:
        self._values = values
        self._passed = passed
        self.start, self.end = start, end
        self.own = values.operations[start:end]
        self.again: list[fx.Node] = []
        self._nodes: list[fx.Node] = []
        self.outside: list[fx.Node] = []
        self._places: dict[fx.Node, _Place] = {}
        self._arguments: list[Any] = []
        for node in self.own:
            self._add(node)
        wiring = [
            f"{node.target}{each}" for node, each in zip(self._nodes, self._arguments, strict=True)
        ]
        forms = (_form_text(values.value(each)) for each in self.outside)
        self.key = "\n".join([*forms, *wiring])

    def _add(self, node: fx.Node) -> None:
        arguments = fx.node.map_arg((node.args, node.kwargs), self._place)
        self._places[node] = _Place(f"op_{len(self._nodes)}")
        self._nodes.append(node)
        self._arguments.append(arguments)

    def _place(self, node: fx.Node) -> Any:
        """Return the place of a tensor; a view of another stretch is made here too, from its base."""
        node = self._values.taken(node)
        if node not in self._places:
            if node in self._values.at and is_view(node) and node not in self._passed:
                self._add(node)
                self.again.append(node)
            else:
                self._places[node] = _Place(f"input_{len(self.outside)}")
                self.outside.append(node)
        return self._places[node]

    def leaving(self, taken: set[fx.Node]) -> set[int]:
        """Return which of its operations make a value that others take."""
        own = set(self.own)
        return {n for n, node in enumerate(self._nodes) if node in taken and node in own}

    def made(self, left: Sequence[int]) -> list[fx.Node]:
        """Return the operations whose results the region returns."""
        return [self._nodes[number] for number in left]

    def region(self, left: Sequence[int], *, once: bool) -> Region:
        """Return the stretch as a region that returns the results of the operations in `left`."""
        writes = any(_written(node) for node in self._nodes)
        small = once and not writes and len(self._nodes) < _SMALL
        graph = fx.Graph()
        made = {f"input_{n}": graph.placeholder(f"input_{n}") for n in range(len(self.outside))}
        for number, (node, given) in enumerate(zip(self._nodes, self._arguments, strict=True)):
            args, kwargs = fx.node.map_aggregate(given, _node_in(made))
            name = f"op_{number}"
            target = _SILENT_VIEWS.get(node.target, node.target)
            made[name] = graph.create_node("call_function", target, args, kwargs, name)
        graph.output([made[f"op_{number}"] for number in left])
        examples = tuple(self._values.value(each) for each in self.outside)
        module = fx.GraphModule(nn.Module(), graph)
        return Region(graph=module, examples=examples, small=small)


def _node_in(made: dict[str, fx.Node]) -> Callable[[Any], Any]:
    return lambda each: made[each.name] if isinstance(each, _Place) else each


@final
class _Place:
    """Stands for a tensor in the arguments of an operation."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _chain(values: _Values, parts: Sequence[_Stretch]) -> Chain:
    taken = {node for part in parts for node in part.outside} | set(values.results)
    left: dict[str, set[int]] = {}
    for part in parts:
        left.setdefault(part.key, set()).update(part.leaving(taken))
    kept = {key: sorted(numbers) for key, numbers in left.items()}
    uses = Counter(part.key for part in parts)
    first = {part.key: part for part in reversed(parts)}
    numbers = {key: number for number, key in enumerate(kept)}
    spare = itertools.count()
    places = {node: next(spare) for node in values.inputs}
    # The last call that uses a value; those of the step itself outlive all calls.
    last = {node: number for number, part in enumerate(parts) for node in part.outside}
    last |= {node: len(parts) for node in (*values.inputs, *values.results)}
    calls: list[Call] = []
    for number, part in enumerate(parts):
        made = part.made(kept[part.key])
        outputs = tuple(next(spare) for _ in made)
        # A view that this copy only makes again has the place of the stretch that it is from.
        own = set(part.own)
        mine = {n: place for n, place in zip(made, outputs, strict=True) if n in own}
        places |= mine
        unused = [
            place
            for node, place in zip(made, outputs, strict=True)
            if node not in mine or last.get(node, number) == number
        ]
        ended = [places[node] for node in part.outside if last[node] == number]
        calls.append(
            Call(
                region=numbers[part.key],
                inputs=tuple(places[node] for node in part.outside),
                outputs=outputs,
                forms=tuple(_form(values.value(node)) for node in made),
                dropped=(*unused, *ended),
            )
        )
    return Chain(
        regions=tuple(first[key].region(kept[key], once=uses[key] == 1) for key in kept),
        calls=tuple(calls),
        places=next(spare),
        outputs=tuple(places[node] for node in values.results),
    )
