"""Sizes of the values of a model: shapes, dtypes and bytes of every value that has a name.

    for value in value_summaries(model, torch.ones(2, 4)):
        print(value.name, value.output, value.bytes)

A callback sees each value and notes its sizes, so no activation lives longer than in the forward itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch.utils import _pytree as pytree

from flodl.errors import UnknownNameError
from flodl.inspect.values.lines import called, line_of, running_line
from flodl.inspect.values.names import known_names, require
from flodl.inspect.values.observing import observing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSizes:
    """The sizes of the tensors in a nest of containers.

    Attributes:
        shapes: their shapes.
        dtypes: their dtypes, such as `float32`.
        bytes: the bytes of their elements; those of a view count too.
    """

    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    bytes: int = 0

    def __str__(self) -> str:
        shown = (
            f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}"
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )
        return ", ".join(shown)


def sizes_of(value: Any) -> TensorSizes:
    """Return the sizes of the tensors in a value.

    Example:
        >>> import torch
        >>> from flodl.inspect.values.sizes import sizes_of
        >>> found = sizes_of({"a": torch.ones(2, 3), "n": 4})
        >>> str(found), found.bytes
        ('2x3 float32', 24)
    """
    found = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return TensorSizes(
        shapes=tuple(tuple(each.shape) for each in found),
        dtypes=tuple(str(each.dtype).removeprefix("torch.") for each in found),
        bytes=sum(map(tensor_bytes, found)),
    )


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of the elements of a tensor."""
    return tensor.numel() * tensor.element_size()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSummary:
    """One value of a model, by its name.

    Attributes:
        name: the full name, as in `view.names()`.
        kind: `output` of a module, or `value` of a flow.
        line: where the author wrote it, such as `model.py:12`, of an output that of the last call; empty if
            that is unknown.
        calls: how often the run came to it.
        shapes: the shapes of the tensors that it had last.
        dtypes: their dtypes, such as `float32`.
        bytes: the bytes of their elements.
    """

    name: str
    kind: str
    line: str
    calls: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    bytes: int

    @property
    def shape(self) -> str:
        """The shapes, such as `2x8`; `no tensor` without one, and empty if the run did not come to it."""
        shown = ", ".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return (shown or "no tensor") if self.calls else ""

    @property
    def dtype(self) -> str:
        """The dtypes, each once."""
        return ", ".join(dict.fromkeys(self.dtypes))


def value_summaries(
    module: nn.Module,
    inputs: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    depth: int | None = None,
) -> tuple[ValueSummary, ...]:
    """Call a module once and return the sizes of its values, outputs of modules first.

    Args:
        module: any module; the call is one of this module, not of a copy.
        inputs: the inputs of the call.
        named: the keyword inputs of the call.
        depth: how many dots less one a name may have; any number if not given.
    """
    calls: Counter[str] = Counter()
    sizes: dict[str, TensorSizes] = {}

    lines: dict[str, str] = {}

    def see(name: str, value: Any) -> Any:
        calls[name] += 1
        lines[name] = running_line()
        sizes[name] = sizes_of(value)
        return value

    try:
        require(module, ("**",))
    except UnknownNameError:
        return ()  # a layer alone: its output has no name
    with observing(module, ("**",), see):
        called(module, *inputs, **named)
    return tuple(
        _summary(
            name,
            found.kind,
            line_of(found, lines),
            calls[name],
            sizes.get(name, TensorSizes()),
        )
        for name, found in known_names(module).items()
        if depth is None or name.count(".") < depth
    )


def _summary(name: str, kind: str, line: str, calls: int, sizes: TensorSizes) -> ValueSummary:
    return ValueSummary(
        name=name,
        kind=kind,
        line=line,
        calls=calls,
        shapes=sizes.shapes,
        dtypes=sizes.dtypes,
        bytes=sizes.bytes,
    )
