"""Summary of a model: what each part puts out, how large it is, and how much it computes.

    print(flodl.view(model).summary(torch.randn(8, 3, 32, 32)))

A copy of the model runs once, so that running statistics, gradients and the random state stay as they are.
Operations are those of `torch.utils.flop_counter.FlopCounterMode`, which counts matrix products, convolutions
and attention, each multiplication with its addition as two
(https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from flodl.graph.observed import twin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        parameters: the elements of its parameters, those of its children included.
        trainable: how many of these have `requires_grad`.
        macs: multiply-accumulates of all its calls, those of its children included.
    """

    path: str
    kind: str
    calls: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    parameters: int
    trainable: int
    macs: int

    @property
    def output(self) -> str:
        """The shapes and dtypes of the last call, such as `2x8 float32`; empty if it was not called."""
        shown = (
            f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}"
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )
        return (", ".join(shown) or "no tensor") if self.calls else ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The parts of a model in the order of `named_modules`, the model itself first.

    `str()` gives a table, with `-` for the output of a part that the run did not call. A module at two paths
    is listed at its first.
    """

    parts: tuple[PartSummary, ...]

    @property
    def parameters(self) -> int:
        """The elements of all parameters; a shared one counts once."""
        return self.parts[0].parameters

    @property
    def macs(self) -> int:
        """The multiply-accumulates of the run."""
        return self.parts[0].macs

    def to_json(self) -> str:
        """Return the parts as a JSON array of objects."""
        return json.dumps([asdict(part) for part in self.parts], indent=2)

    def __str__(self) -> str:
        rows = [("part", "kind", "output", "parameters", "MACs")]
        rows += [_row(part) for part in self.parts]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join(_line(row, widths) for row in rows)


def summary(module: nn.Module, *inputs: Any, depth: int | None = None, **named: Any) -> Summary:
    """Run a copy of a module once and return what its parts put out and compute.

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
        >>> print(summary(model, torch.ones(2, 4)))
        part   kind        output         parameters  MACs
        model  Sequential  2x8 float32            40    64
          0    Linear      2x8 float32            40    64
          1    ReLU        2x8 float32             0     0
    """
    twin = twin_of(module)
    runs = {
        path: _Run(part)
        for path, part in twin.named_modules()
        if depth is None or not path or path.count(".") < depth
    }
    with torch.random.fork_rng(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        for run in runs.values():
            run.watch(counter)
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, lambda tensor: tensor.detach().clone(), (inputs, named)
        )
        twin(*args, **kwargs)
    return Summary(parts=tuple(run.summary(path) for path, run in runs.items()))


@final
class _Run:
    """What a module of the copy did in the run."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.calls = 0
        self.flops = 0
        self.outputs: tuple[tuple[tuple[int, ...], str], ...] = ()

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
            self.outputs = tuple(
                (tuple(leaf.shape), str(leaf.dtype).removeprefix("torch."))
                for leaf in pytree.tree_leaves(output)
                if isinstance(leaf, torch.Tensor)
            )

        self.module.register_forward_pre_hook(begin)
        self.module.register_forward_hook(end)

    def summary(self, path: str) -> PartSummary:
        """Return the summary of the module at a path."""
        parameters = list(self.module.parameters())
        return PartSummary(
            path=path,
            kind=type(self.module).__name__,
            calls=self.calls,
            shapes=tuple(shape for shape, _ in self.outputs),
            dtypes=tuple(dtype for _, dtype in self.outputs),
            parameters=sum(each.numel() for each in parameters),
            trainable=sum(each.numel() for each in parameters if each.requires_grad),
            macs=self.flops // 2,
        )


def _row(part: PartSummary) -> tuple[str, str, str, str, str]:
    names = part.path.split(".") if part.path else []
    name = "  " * len(names) + (names[-1] if names else "model")
    return name, part.kind, part.output or "-", f"{part.parameters:,}", f"{part.macs:,}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    texts = [text.ljust(width) for text, width in zip(row[:3], widths[:3], strict=True)]
    numbers = [text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True)]
    return "  ".join([*texts, *numbers])
