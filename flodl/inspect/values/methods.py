"""A view's methods for values by name: list, keep, replace, call back, and stop at one."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from flodl.inspect.values.lines import called, line_of, running_line
from flodl.inspect.values.names import ValueName, known_names, matches, require_recorded
from flodl.inspect.values.observing import UpTo, ValueCache, observing
from flodl.inspect.viewer import AbstractViewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class ValueMixin(AbstractViewer):
    """Methods for the values of a model: outputs of its modules, and variables of its flows.

    Example:
        >>> import torch, flodl
        >>> class Attention(flodl.FlowModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.q = torch.nn.Linear(4, 4)
        ...     def flow(self, x: flodl.Flow) -> flodl.Flow:
        ...         att = (x.through(self.q) @ x.transpose(-2, -1)).softmax(-1)
        ...         return att @ x
        >>> model, x = Attention(), torch.ones(1, 3, 4)
        >>> y, cache = flodl.view(model).run_with_cache(x, names="att")
        >>> cache["att"].shape
        torch.Size([1, 3, 3])
        >>> with flodl.view(model).intervene({"att": torch.zeros_like}):
        ...     model(x).abs().sum().item()
        0.0
    """

    def names(self, pattern: str = "**", *inputs: Any, **named: Any) -> tuple[ValueName, ...]:
        """Return the names of values that fit a pattern: outputs of modules first.

        Args:
            pattern: a name with `*` for a part without dots, and `**` for anything.
            *inputs: example inputs; with them the model runs once, and shapes and lines are known.
            **named: keyword inputs.

        Raises:
            NotRecordedError: a flow has not been called yet, and no inputs are given.
        """
        shapes: dict[str, str] = {}
        lines: dict[str, str] = {}

        def see(name: str, value: Any) -> Any:
            shapes[name] = _shape(value)
            lines[name] = running_line()
            return value

        if inputs or named:
            with torch.no_grad(), observing(self._viewed, (pattern,), see):
                called(self._viewed, *inputs, **named)
        require_recorded(self._viewed)
        found = known_names(self._viewed)
        return tuple(
            replace(each, shape=shapes.get(name, ""), line=line_of(each, lines))
            for name, each in found.items()
            if matches((pattern,), name)
        )

    def run_with_cache(
        self, *inputs: Any, names: str | tuple[str, ...] = "**", **named: Any
    ) -> tuple[Any, ValueCache]:
        """Call the model and return its output and the values of these names.

        Args:
            *inputs: the inputs of the call.
            names: names with `*` and `**`; one, or several.
            **named: keyword inputs.

        Raises:
            UnknownNameError: a name fits nothing.
        """
        patterns = (names,) if isinstance(names, str) else tuple(names)
        with self.capture(*patterns) as cache:
            output = self._viewed(*inputs, **named)
        return output, cache

    @contextmanager
    def capture(self, *names: str) -> Iterator[ValueCache]:
        """Keep the values of these names in the calls within the block.

        Args:
            *names: names with `*` and `**`.

        Raises:
            UnknownNameError: a name fits nothing.
        """
        cache = ValueCache()
        with observing(self._viewed, names, cache.add):
            yield cache

    @contextmanager
    def intervene(self, changes: Mapping[str, Any]) -> Iterator[None]:
        """Replace values in the calls within the block; gradients flow through what replaces them.

        Args:
            changes: by name, with `*` and `**`, a function from the value to the one that replaces it,
                or the value itself, such as a tensor of another run.

        Raises:
            UnknownNameError: a name fits nothing.
        """
        known: dict[str, list[Any]] = {}

        def see(name: str, value: Any) -> Any:
            if name not in known:
                known[name] = [each for key, each in changes.items() if matches((key,), name)]
            for change in known[name]:
                value = change(value) if callable(change) else change
            return value

        with observing(self._viewed, tuple(changes), see):
            yield

    @contextmanager
    def on(self, name: str, callback: Callable[[str, Any], None]) -> Iterator[None]:
        """Call back with the name and the value in the calls within the block.

        Args:
            name: a name with `*` and `**`.
            callback: what it returns is ignored.

        Raises:
            UnknownNameError: the name fits nothing.
        """

        def see(found: str, value: Any) -> Any:
            callback(found, value)
            return value

        with observing(self._viewed, (name,), see):
            yield

    def upto(self, name: str) -> UpTo:
        """Return a module that ends at a value, with the parameters of this one.

        Args:
            name: a full name, without `*`.

        Raises:
            UnknownNameError: there is no such value.
        """
        return UpTo(self._viewed, name)


def _shape(value: Any) -> str:
    shown = (
        f"{'x'.join(map(str, leaf.shape)) or 'scalar'} {str(leaf.dtype).removeprefix('torch.')}"
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor)
    )
    return ", ".join(shown) or type(value).__name__
