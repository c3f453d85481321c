"""Summary of a model: what each part puts out, how large it is, and how much it computes.

    found = flodl.view(model).summary(torch.randn(8, 3, 32, 32))
    print(found)                        # a row per part
    print(found.values_text)            # a row per value
    flodl.view(model).summary(torch.randn(8, 3, 32, 32), timed=True)      # also the time of each part

Copies of the model run, so that running statistics, gradients and the random state stay as they are. One
counts operations; another one hands over its values, because a flow that is watched may record a second time.
Operations are those of `torch.utils.flop_counter.FlopCounterMode`, which counts matrix products, convolutions
and attention, each multiplication with its addition as two
(https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, final

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from flodl.errors import GraphError
from flodl.graph.observed import twin_of
from flodl.graph.planned_module import PlannedModule
from flodl.graph.profiling import WARM_UP
from flodl.inspect import plain_profiling, timing
from flodl.inspect.values.sizes import (
    TensorSizes,
    ValueSummary,
    sizes_of,
    tensor_bytes,
    value_summaries,
)
from flodl.observe.duration import short_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

# Timed forwards after the warm-up; the fastest one tells most about the model and least about the machine.
_PASSES = 5


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
        seconds: the time of all its calls, that of its children included; `None` if it was not timed.
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
    seconds: float | None = None

    @property
    def output(self) -> str:
        """The shapes and dtypes of the last call, such as `2x8 float32`; empty if it was not called."""
        shown = str(TensorSizes(shapes=self.shapes, dtypes=self.dtypes))
        return (shown or "no tensor") if self.calls else ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of a forward the times of its steps explain.

    Attributes:
        total: the seconds of the whole forward.
        steps: those of the steps of a flow; for a plain module those within its submodules.
        entry: those before the first step of a flow: guards, and the choice of the plan.

    Example:
        >>> from flodl.inspect.summary import Coverage
        >>> print(Coverage(total=0.002, steps=0.0019, entry=0.00005))
        97.5 % of 2.00ms: 95.0 % in steps, 2.5 % before the first
    """

    total: float
    steps: float
    entry: float

    @property
    def share(self) -> float:
        """The part of the time that is covered, from 0 to 1."""
        return (self.steps + self.entry) / self.total if self.total else 1.0

    def __str__(self) -> str:
        text = f"{self.share:.1%} of {short_time(self.total)}"
        if self.entry:
            steps, entry = self.steps / self.total, self.entry / self.total
            text += f": {steps:.1%} in steps, {entry:.1%} before the first"
        return text.replace("%", " %")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The parts and the values of a model.

    `str()` gives a table of the parts, with `-` for the output of a part that the run did not call. A module
    at two paths is listed at its first.

    Attributes:
        parts: the parts in the order of `named_modules`, the model itself first.
        values: the values that have a name, outputs of modules first.
        is_timed: whether times were asked for.
        coverage: what the times cover; `None` without times, or if each call of the flow was recorded.
    """

    parts: tuple[PartSummary, ...]
    values: tuple[ValueSummary, ...]
    is_timed: bool = False
    coverage: Coverage | None = None

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
        """Return an object with the lists `parts` and `values` as JSON, and `coverage` if there is one."""
        found = asdict(self)
        del found["is_timed"]
        if self.coverage is None:
            del found["coverage"]
        return json.dumps(found, indent=2)

    def __str__(self) -> str:
        head = ("part", "kind", "output", "bytes", "parameters", "bytes", "MACs")
        rows = [head, *map(_row, self.parts)]
        if not self.is_timed:
            return _table(rows, 3)
        times = ["-" if each.seconds is None else short_time(each.seconds) for each in self.parts]
        table = _table([(*row, time) for row, time in zip(rows, ["time", *times], strict=True)], 3)
        if self.coverage is None:
            return f"{table}\nno times: each call of the flow was recorded, not timed"
        return f"{table}\nthe times cover {self.coverage}"


def summary(
    module: nn.Module,
    *inputs: Any,
    depth: int | None = None,
    timed: bool = False,
    **named: Any,
) -> Summary:
    """Run copies of a module and return what its parts put out and compute, and the sizes of its values.

    Args:
        module: any module.
        *inputs: example inputs, as for a call.
        depth: how many levels below the module are listed; all if not given.
        timed: whether to time each part; another copy then runs nine times.
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
    values = _values(module, inputs, named, depth)
    if not timed:
        return Summary(parts=parts, values=values)
    seconds, coverage = _times(module, inputs, named)
    parts = tuple(replace(each, seconds=seconds.get(each.path)) for each in parts)
    return Summary(parts=parts, values=values, is_timed=True, coverage=coverage)


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
    twin = twin_of(module)
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
        twin = twin_of(module)
        try:
            return value_summaries(twin, *_copied(inputs, named), depth=depth)
        except GraphError:
            # A plan that holds objects of its own can be watched only after a call without a watch.
            twin = twin_of(module)
            args, kwargs = _copied(inputs, named)
            twin(*args, **kwargs)
            return value_summaries(twin, *_copied(inputs, named), depth=depth)


def _times(
    module: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[dict[str, float], Coverage | None]:
    """Return the seconds of each part in the fastest forward of a copy, and what they cover."""
    best: dict[str, float] = {}
    coverage: Coverage | None = None
    twin = twin_of(module)
    timing.enable_profiling(twin)
    if isinstance(twin, PlannedModule):
        plain_profiling.enable(twin, timing.clock_of(twin))
    with torch.random.fork_rng(), torch.no_grad():
        # A flow may record its first call.
        for number in range(1 + WARM_UP + _PASSES):
            args, kwargs = _copied(inputs, named)
            twin(*args, **kwargs)
            found = _coverage(twin) if number > WARM_UP else None
            if found is not None and (coverage is None or found.total < coverage.total):
                coverage = found
                best = {path: sum(each) for path, each in plain_profiling.spans(twin).items()}
    return best, coverage


def _coverage(module: nn.Module) -> Coverage | None:
    """Return what the times of the last forward cover; `None` if that was recorded."""
    total = sum(plain_profiling.spans(module)[""])
    if not isinstance(module, PlannedModule):
        within = plain_profiling.within_submodules(module)
        return Coverage(total=total, steps=within, entry=0.0)
    entry = timing.entry(module, plain_profiling.began(module))
    profile = timing.profile(module)
    if entry is None or profile is None:
        return None
    return Coverage(total=total, steps=profile.total, entry=entry)


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
