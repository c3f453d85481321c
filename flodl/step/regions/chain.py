"""A step as a chain of calls of its regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

import torch

from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor, fx

    Function: TypeAlias = Callable[[list[Tensor]], list[Tensor]]

Form: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A stretch of operations.

    Attributes:
        graph: its operations.
        examples: tensors of the form of its inputs, without values that matter.
        small: whether its operations are called one by one, as compiling so few does not pay.
    """

    graph: fx.GraphModule
    examples: tuple[Tensor, ...]
    small: bool = False

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        """Call its operations one by one."""
        made: list[Tensor] = self.graph(*inputs)
        return made


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a region.

    Attributes:
        region: its number.
        inputs: places of the values that it takes.
        outputs: places of the values that it makes.
        forms: shape and strides of each value that it makes.
        dropped: places of the values that no later call uses.
    """

    region: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    forms: tuple[Form, ...]
    dropped: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Regions, and the calls that together are the step.

    Attributes:
        regions: those of the step, compiled or small.
        calls: the calls, in the order of the step.
        places: number of values: first the inputs of the step, then what the calls make.
        outputs: places of the results of the step.
    """

    regions: tuple[Region, ...]
    calls: tuple[Call, ...]
    places: int
    outputs: tuple[int, ...]

    @property
    def compiled(self) -> tuple[Region, ...]:
        """The regions to compile."""
        return tuple(each for each in self.regions if not each.small)

    def linked(self, functions: Sequence[Function]) -> Function:
        """Return the step as one function of its inputs; `functions` are those of `compiled`.

        The code of a region is made for inputs of certain strides. A compiler may lay out a result
        otherwise, so the first call compares, and each call copies such results into the strides that
        were recorded. The first call raises RefusedStepError if a result has another shape.
        """
        made = iter(functions)
        return _Linked(self, [each if each.small else next(made) for each in self.regions])


@final
class _Linked:
    """A chain with its compiled regions."""

    def __init__(self, chain: Chain, functions: Sequence[Function]) -> None:
        self._calls = [(functions[each.region], each) for each in chain.calls]
        self._spare = [None] * chain.places
        self._outputs = chain.outputs
        self._checked = False

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        values: list[Tensor] = [*inputs, *self._spare[len(inputs) :]]  # type: ignore[list-item]
        for number, (function, call) in enumerate(self._calls):
            made = function([values[place] for place in call.inputs])
            if not self._checked and (forms := _other_forms(made, call.forms)):
                laid_out = _LaidOut(function, forms)
                self._calls[number] = laid_out, call
                made = laid_out.copied(made)
            for place, value in zip(call.outputs, made, strict=True):
                values[place] = value
            for place in call.dropped:
                values[place] = None  # type: ignore[call-overload]
        self._checked = True
        return [values[place] for place in self._outputs]


@final
class _LaidOut:
    """A region that returns copies of some results, each in the strides that were recorded."""

    def __init__(self, function: Function, forms: Mapping[int, Form]) -> None:
        self._function = function
        self._forms = forms

    def __call__(self, inputs: list[Tensor]) -> list[Tensor]:
        return self.copied(self._function(inputs))

    def copied(self, made: Sequence[Tensor]) -> list[Tensor]:
        """Return the results; those of another form are copied."""
        whole = list(made)
        for number, (shape, stride) in self._forms.items():
            old = whole[number]
            new = torch.empty_strided(shape, stride, dtype=old.dtype, device=old.device)
            whole[number] = new.copy_(old)
        return whole


def _other_forms(made: Sequence[Tensor], forms: tuple[Form, ...]) -> dict[int, Form]:
    """Return the recorded forms of the results that have other strides, by number."""
    found = {}
    for number, (value, (shape, stride)) in enumerate(zip(made, forms, strict=True)):
        if tuple(value.shape) != shape:
            raise RefusedStepError(
                f"a region of the step made shape {tuple(value.shape)} where {shape} was recorded"
            )
        if value.stride() != stride:
            found[number] = shape, stride
    return found
