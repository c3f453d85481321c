"""A step as a chain of calls of its regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

        Its first call raises RefusedStepError if a region lays out a result in memory otherwise than
        the code of the next region was made for.
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
        for function, call in self._calls:
            made = function([values[place] for place in call.inputs])
            if not self._checked:
                _require_forms(made, call.forms)
            for place, value in zip(call.outputs, made, strict=True):
                values[place] = value
            for place in call.dropped:
                values[place] = None  # type: ignore[call-overload]
        self._checked = True
        return [values[place] for place in self._outputs]


def _require_forms(made: Sequence[Tensor], forms: tuple[Form, ...]) -> None:
    for value, (shape, stride) in zip(made, forms, strict=True):
        if (tuple(value.shape), value.stride()) != (shape, stride):
            raise RefusedStepError(
                f"a region of the step made strides {value.stride()} where {stride} were recorded"
            )
