"""Summary of a model: what each part puts out, how large it is, and how much it computes.

    print(flodl.view(model).summary(torch.randn(8, 3, 32, 32)))

A copy of the model runs once, so that running statistics, gradients and the random state stay as they are.
Operations are those of `torch.utils.flop_counter.FlopCounterMode`, which counts matrix products, convolutions
and attention, each multiplication with its addition as two
(https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py).
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

# Containers without a forward, which nothing calls.
_UNCALLED = {"ModuleList": "", "ModuleDict": ""}


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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The parts of a model in the order of `named_modules`, the model itself first.

    `str()` gives a table. A module at two paths is listed at its first.
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

    def json(self) -> str:
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
    twin = copy.deepcopy(module)
    outputs: dict[str, Any] = {}
    calls: Counter[str] = Counter()
    listed = [
        (path, part)
        for path, part in twin.named_modules()
        if depth is None or not path or path.count(".") < depth
    ]
    with torch.random.fork_rng(), torch.no_grad():
        twin(*copy.deepcopy(inputs), **copy.deepcopy(named))  # a flow is recorded here
        handles = [
            part.register_forward_hook(_noting(path, outputs, calls)) for path, part in listed
        ]
        try:
            macs = _counted(twin, inputs, named)
        finally:
            for handle in handles:
                handle.remove()
    parts = (
        _part(path, part, calls[path], outputs.get(path), macs.get(path, 0))
        for path, part in listed
    )
    return Summary(parts=tuple(parts))


def _noting(path: str, outputs: dict[str, Any], calls: Counter[str]) -> Callable[..., None]:
    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        del module, inputs
        calls[path] += 1
        outputs[path] = output

    return note


def _counted(twin: nn.Module, inputs: Sequence[Any], named: dict[str, Any]) -> dict[str, int]:
    """Return the multiply-accumulates of a run by path, that of the model under the empty one."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        twin(*inputs, **named)
    head = f"{type(twin).__name__}."
    found = {"": counter.get_total_flops() // 2}
    for name, operations in counter.get_flop_counts().items():
        if name.startswith(head):
            found[name.removeprefix(head)] = sum(operations.values()) // 2
    return found


def _part(path: str, part: nn.Module, calls: int, output: Any, macs: int) -> PartSummary:
    tensors = tuple(_tensors(output))
    parameters = list(part.parameters())
    return PartSummary(
        path=path,
        kind=type(part).__name__,
        calls=calls,
        shapes=tuple(tuple(each.shape) for each in tensors),
        dtypes=tuple(str(each.dtype).removeprefix("torch.") for each in tensors),
        parameters=sum(each.numel() for each in parameters),
        trainable=sum(each.numel() for each in parameters if each.requires_grad),
        macs=macs,
    )


def _tensors(output: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(output):
        if isinstance(leaf, torch.Tensor):
            yield leaf


def _row(part: PartSummary) -> tuple[str, str, str, str, str]:
    names = part.path.split(".") if part.path else []
    name = "  " * len(names) + (names[-1] if names else "model")
    shown = (
        f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}"
        for shape, dtype in zip(part.shapes, part.dtypes, strict=True)
    )
    output = (
        (", ".join(shown) or "no tensor") if part.calls else _UNCALLED.get(part.kind, "not called")
    )
    return name, part.kind, output, f"{part.parameters:,}", f"{part.macs:,}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    texts = [text.ljust(width) for text, width in zip(row[:3], widths[:3], strict=True)]
    numbers = [text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True)]
    return "  ".join([*texts, *numbers])
