"""Observation of values by name: keep them, replace them, or stop at one.

    with view.capture("h.*.attn.att") as cache:
        model(x)
    cache["h.0.attn.att"]

An output of a module comes from a forward hook; a value inside a flow from the variant of its plans that
hands it over (`flodl.graph.observed`). A call under `torch.compile` runs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.graph.observed import AbstractObserver, is_paused, value_names
from flodl.inspect.values.names import flows_in, joined, matches, require
from flodl.observe.metrics import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flodl.graph.plan_cache import PlanCache
    from flodl.ir.graph import GraphSpec

    See = Callable[[str, Any], Any]


@final
class ValueCache(Mapping[str, Any]):
    """The values that were seen, by full name, in the order in which they came.

    A value that came more than once, such as that of a shared module, counts with its last one;
    `every` gives all. The values are those of the call: they keep their autograd graph, and a later step
    that works in place changes them.

    Example:
        >>> import torch, flodl
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
        >>> with flodl.view(model).capture("*") as cache:
        ...     y = model(torch.ones(1, 4))
        >>> list(cache), cache["1"] is y
        (['0', '1'], True)
    """

    def __init__(self) -> None:
        """Begin with no values."""
        self._values: dict[str, list[Any]] = {}

    def add(self, name: str, value: Any) -> Any:
        """Keep a value, and return it."""
        self._values.setdefault(name, []).append(value)
        return value

    def every(self, name: str) -> tuple[Any, ...]:
        """Return all values of a name, in the order in which they came.

        Raises:
            UnknownNameError: it was not seen.
        """
        if name not in self._values:
            raise unknown("captured value", name, self._values)
        return tuple(self._values[name])

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()

    def __getitem__(self, name: str) -> Any:
        return self.every(name)[-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values


@final
class _FlowObserver(AbstractObserver):
    """Sees the values of one flow, under full names."""

    def __init__(self, path: str, patterns: Sequence[str], see: See) -> None:
        self._path = path
        self._patterns = patterns
        self._see = see

    def wanted(self, spec: GraphSpec) -> dict[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        for label, node in value_names(spec).items():
            name = joined(self._path, label)
            if matches(self._patterns, name):
                found[node] = (*found.get(node, ()), name)
        return found

    def see(self, name: str, value: Any) -> Any:
        return self._see(name, value)


@final
class _Hook:
    """Sees the output of one module; a copy of a model that records is not seen."""

    def __init__(self, path: str, see: See) -> None:
        self._path = path
        self._see = see

    def __call__(self, _module: nn.Module, _inputs: Any, output: Any) -> Any:
        if is_paused():
            return None
        seen = self._see(self._path, output)
        return None if seen is output else seen

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        del memo
        return _Hook(self._path, _passed)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy or a pickle that is made within the block is not observed.
        return _Hook, (self._path, _passed)


def _passed(name: str, value: Any) -> Any:
    del name
    return value


@contextmanager
def observing(module: nn.Module, patterns: Sequence[str], see: See) -> Iterator[None]:
    """Hand values to `see(name, value)` within the block, and go on with what it returns.

    Args:
        module: any module.
        patterns: names, with `*` and `**`.
        see: called for each value of such a name.

    Raises:
        UnknownNameError: a pattern fits nothing.
    """
    require(module, patterns)
    hooks = []
    attached: list[tuple[PlanCache, _FlowObserver]] = []
    try:
        for path, part in module.named_modules(remove_duplicate=False):
            if path and matches(patterns, path):
                hooks.append(part.register_forward_hook(_Hook(path, see)))
        for path, flow in flows_in(module):
            if not any(_may_lead_into(each, path) for each in patterns):
                continue
            for plans in flow._flodl_plans.values():
                observer = _FlowObserver(path, patterns, see)
                plans.watched(plans.watch.observed_by((*plans.watch.values, observer)))
                attached.append((plans, observer))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for plans, observer in attached:
            left = tuple(each for each in plans.watch.values if each is not observer)
            plans.watched(plans.watch.observed_by(left))


def _may_lead_into(pattern: str, path: str) -> bool:
    """Return False if no value inside the flow at a path fits a pattern."""
    literal, inside = pattern.partition("*")[0], f"{path}." if path else ""
    return literal.startswith(inside) or inside.startswith(literal)


@final
class _Stopped(BaseException):
    """The forward has come to the value at which it ends."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@final
class UpTo(nn.Module):
    """A model that ends at one of its values; it shares the parameters of the whole model.

    Example:
        >>> import torch, flodl
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> flodl.view(model).upto("1")(torch.ones(1, 4)).shape
        torch.Size([1, 3])
    """

    def __init__(self, model: nn.Module, name: str) -> None:
        """End a model at a value.

        Args:
            model: any module.
            name: the full name of the value, without `*`.

        Raises:
            UnknownNameError: there is no such value.
        """
        super().__init__()
        require(model, (name,))
        self.model = model
        self.name = name

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run the model up to the value, and return it.

        Raises:
            UnknownNameError: the forward ended without it.
        """

        def stop(name: str, value: Any) -> Any:
            del name
            raise _Stopped(value)

        try:
            with observing(self.model, (self.name,), stop):
                self.model(*inputs, **named)
        except _Stopped as stopped:
            return stopped.value
        raise unknown("value of this forward", self.name, ())
