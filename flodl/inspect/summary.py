"""Summary of a model: what each part puts out, how large it is, and how much it computes.

    found = flodl.view(model).summary(torch.randn(8, 3, 32, 32))
    print(found)                        # a row per part
    print(found.values_text)            # a row per value

Copies of the model run, so that running statistics, gradients and the random state stay as they are. One
counts operations; another one hands over its values, because a flow that is watched may record a second time.
Operations are those of `torch.utils.flop_counter.FlopCounterMode`, which counts matrix products, convolutions
and attention, each multiplication with its addition as two
(https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py).
"""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from flodl.errors import GraphError
from flodl.inspect.values.sizes import (
    TensorSizes,
    ValueSummary,
    sizes_of,
    tensor_bytes,
    value_summaries,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartSummary:
    """One part of a model.

    Attributes:
        path: the dotted path of the module, empty for the model.
        kind: the name of its class.
        calls: how often the run called it.
        shapes: the shapes of the tensors that its last call returned.
        dtypes: their dtypes, such as `float32`.
        output_bytes: the bytes of their elements.
        parameters: the elements of its parameters, those of its children included.
        trainable: how many of these have `requires_grad`.
        parameter_bytes: the bytes of these elements.
        macs: multiply-accumulates of all its calls, those of its children included.
    """

    path: str
    kind: str
    calls: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    output_bytes: int
    parameters: int
    trainable: int
    parameter_bytes: int
    macs: int

    @property
    def output(self) -> str:
        """The shapes and dtypes of the last call, such as `2x8 float32`; empty if it was not called."""
        shown = str(TensorSizes(shapes=self.shapes, dtypes=self.dtypes))
        return (shown or "no tensor") if self.calls else ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The parts and the values of a model.

    `str()` gives a table of the parts, with `-` for the output of a part that the run did not call. A module
    at two paths is listed at its first.

    Attributes:
        parts: the parts in the order of `named_modules`, the model itself first.
        values: the values that have a name, outputs of modules first.
    """

    parts: tuple[PartSummary, ...]
    values: tuple[ValueSummary, ...]

    @property
    def parameters(self) -> int:
        """The elements of all parameters; a shared one counts once."""
        return self.parts[0].parameters

    @property
    def macs(self) -> int:
        """The multiply-accumulates of the run."""
        return self.parts[0].macs

    @property
    def values_text(self) -> str:
        """A table of the values, with `-` for one that the run did not come to."""
        rows = [("value", "shape", "dtype", "bytes")]
        rows += [
            (each.name, each.shape or "-", each.dtype, f"{each.bytes:,}") for each in self.values
        ]
        return _table(rows, 3)

    def to_json(self) -> str:
        """Return an object with the lists `parts` and `values` as JSON."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        head = ("part", "kind", "output", "bytes", "parameters", "bytes", "MACs")
        return _table([head, *map(_row, self.parts)], 3)


def summary(module: nn.Module, *inputs: Any, depth: int | None = None, **named: Any) -> Summary:
    """Run copies of a module and return what its parts put out and compute, and the sizes of its values.

    Args:
        module: any module.
        *inputs: example inputs, as for a call.
        depth: how many levels below the module are listed; all if not given.
        **named: keyword inputs.

    Raises:
        Exception: whatever the forward raises for these inputs.

    Example:
        >>> import torch
        >>> from flodl.inspect.summary import summary
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> found = summary(model, torch.ones(2, 4))
        >>> print(found)
        part   kind        output       bytes  parameters  bytes  MACs
        model  Sequential  2x8 float32     64          40    160    64
          0    Linear      2x8 float32     64          40    160    64
          1    ReLU        2x8 float32     64           0      0     0
        >>> print(found.values_text)
        value  shape  dtype    bytes
        0      2x8    float32     64
        1      2x8    float32     64
    """
    parts = part_summaries(module, inputs, named, depth=depth)
    return Summary(parts=parts, values=_values(module, inputs, named, depth))


def part_summaries(
    module: nn.Module,
    inputs: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    depth: int | None = None,
) -> tuple[PartSummary, ...]:
    """Run a copy of a module once and return what its parts put out and compute.

    Args:
        module: any module.
        inputs: the inputs of the call.
        named: the keyword inputs of the call.
        depth: how many levels below the module are listed; all if not given.
    """
    twin = copy.deepcopy(module)
    runs = {
        path: _Run(part)
        for path, part in twin.named_modules()
        if depth is None or not path or path.count(".") < depth
    }
    with torch.random.fork_rng(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        for run in runs.values():
            run.watch(counter)
        args, kwargs = _copied(inputs, named)
        twin(*args, **kwargs)
    return tuple(run.summary(path) for path, run in runs.items())


def _values(
    module: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any], depth: int | None
) -> tuple[ValueSummary, ...]:
    with torch.random.fork_rng(), torch.no_grad():
        twin = copy.deepcopy(module)
        try:
            return value_summaries(twin, *_copied(inputs, named), depth=depth)
        except GraphError:
            # A plan that holds objects of its own can be watched only after a call without a watch.
            twin = copy.deepcopy(module)
            args, kwargs = _copied(inputs, named)
            twin(*args, **kwargs)
            return value_summaries(twin, *_copied(inputs, named), depth=depth)


def _copied(
    inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs that the run may work on in place."""
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().clone(), (inputs, dict(named))
    )
    return args, kwargs


@final
class _Run:
    """What a module of the copy did in the run."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.calls = 0
        self.flops = 0
        self.sizes = TensorSizes()

    def watch(self, counter: FlopCounterMode) -> None:
        """Note the calls of the module; its operations are those between begin and end of each.

        The counter's own numbers by module name a module that lies at two paths by either of them.
        """
        began: list[int] = []

        def begin(module: nn.Module, inputs: Any) -> None:
            del module, inputs
            began.append(counter.get_total_flops())

        def end(module: nn.Module, inputs: Any, output: Any) -> None:
            del module, inputs
            self.calls += 1
            self.flops += counter.get_total_flops() - began.pop()
            self.sizes = sizes_of(output)

        self.module.register_forward_pre_hook(begin)
        self.module.register_forward_hook(end)

    def summary(self, path: str) -> PartSummary:
        """Return the summary of the module at a path."""
        parameters = list(self.module.parameters())
        return PartSummary(
            path=path,
            kind=type(self.module).__name__,
            calls=self.calls,
            shapes=self.sizes.shapes,
            dtypes=self.sizes.dtypes,
            output_bytes=self.sizes.bytes,
            parameters=sum(each.numel() for each in parameters),
            trainable=sum(each.numel() for each in parameters if each.requires_grad),
            parameter_bytes=sum(map(tensor_bytes, parameters)),
            macs=self.flops // 2,
        )


def _row(part: PartSummary) -> tuple[str, ...]:
    names = part.path.split(".") if part.path else []
    name = "  " * len(names) + (names[-1] if names else "model")
    numbers = (part.output_bytes, part.parameters, part.parameter_bytes, part.macs)
    return name, part.kind, part.output or "-", *(f"{each:,}" for each in numbers)


def _table(rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return rows as lines: so many columns of text from the left, and numbers at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < texts else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
