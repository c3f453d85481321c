"""A compiled step at work: the recorded programs bound to the tensors of a live recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from typing import TYPE_CHECKING, final

import torch

from flodl.step.accumulation import Accumulation
from flodl.step.tags import Tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flodl.step.artifact import Compiled
    from flodl.step.binding import Binding
    from flodl.step.eager import EagerStep
    from flodl.step.program import Program

    Made = Sequence[tuple[Program, Compiled]]


@final
class _Function:
    """A compiled program with what it takes besides tensors of model, optimizer and batch."""

    def __init__(self, program: Program, call: Compiled, count: int, device: torch.device) -> None:
        self.program = program
        self._call = call
        self._on_cpu = device.type == "cpu"
        self._device = device
        # The numbers of a step are written into memory that the tensor shares.
        self._values = array("d", [0.0] * count)
        self._numbers = torch.frombuffer(self._values, dtype=torch.float64)
        self._constants = list(program.constants)

    def __call__(
        self, bound: list[Tensor], values: list[float], tensors: list[Tensor]
    ) -> list[Tensor]:
        self._values[:] = array("d", values)
        numbers = self._numbers
        if not self._on_cpu:
            numbers = numbers.clone().pin_memory().to(self._device, non_blocking=True)
        outputs: list[Tensor] = self._call([*bound, numbers, *tensors, *self._constants])
        return outputs


class AbstractCompiledStep(ABC):
    """Common base of `WholeStep` and `SplitStep`.

    Attributes:
        metrics: those of the last step.
        gradient_norm: that of the last update, if it clips.
    """

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._tags = Tags(binding.recipe.model)
        self.metrics: dict[str, Tensor] = {}
        self.gradient_norm: Tensor | None = None

    @abstractmethod
    def __call__(self, tensors: list[Tensor]) -> Tensor | None:
        """Run the step on the tensors of a batch; nothing if the update is no longer the recorded one."""

    def stale(self) -> str | None:
        """Return why the binding no longer holds."""
        if self._tags.changed():
            return "other tags are observed"
        return self._binding.stale()

    def _distribute(self, program: Program, outputs: list[Tensor]) -> list[Tensor]:
        """Put metrics and tagged values in their places; return the outputs between them."""
        end = len(outputs) - program.tags.count
        self.metrics = dict(zip(program.metrics, outputs[1:], strict=False))
        if program.tags.count:
            self._tags.put(outputs[end:], program.tags)
        return outputs[1 + len(program.metrics) : end]


@final
class WholeStep(AbstractCompiledStep):
    """One compiled function from the batch to the updated parameters."""

    def __init__(self, made: Made, binding: Binding) -> None:
        super().__init__(binding)
        ((self._program, call),) = made
        count = len(binding.numbers()[0])
        binding.take_back()
        self._run = _Function(self._program, call, count, binding.recipe.device())

    def __call__(self, tensors: list[Tensor]) -> Tensor | None:
        """Run the step on the tensors of a batch; nothing if the update is no longer the recorded one."""
        binding = self._binding
        values, flags = binding.numbers()
        if flags != self._program.flags:
            binding.take_back()
            return None
        outputs = self._run(binding.aliases, values, tensors)
        binding.advance()
        if len(outputs) > 1:
            norm = self._distribute(self._program, outputs)
            self.gradient_norm = norm[0] if norm else None
        return outputs[0]


@final
class SplitStep(AbstractCompiledStep):
    """Two compiled functions: one gathers gradients, the other one updates when Python says so."""

    def __init__(
        self, made: Made, binding: Binding, eager: EagerStep, gathered: Accumulation
    ) -> None:
        """Bind the functions.

        Args:
            made: gathering and updating.
            binding: the tensors that they work on.
            eager: knows the position in the accumulation and the scale of losses.
            gathered: where gradients are gathered.
        """
        super().__init__(binding)
        self._eager = eager
        self._accumulation = gathered
        gathering, updating = made
        device = binding.recipe.device()
        count = len(binding.numbers()[0])
        binding.take_back()
        self._gather = _Function(*gathering, 1, device)
        self._update = _Function(*updating, count + 1, device)
        self._used = binding.aliases[: len(binding.used)]
        self._changed = False

    def stale(self) -> str | None:
        """Return why the binding no longer holds."""
        if self._changed:
            return "the settings of the optimizer changed"
        return super().stale()

    def __call__(self, tensors: list[Tensor]) -> Tensor:
        """Gather the gradients of a batch, and update after the last one."""
        eager, held = self._eager, self._accumulation
        held.take_over(eager)
        recipe = self._binding.recipe
        scale = eager.scaler.get_scale() if eager.scaler is not None else 1.0
        share = scale / recipe.accumulate
        outputs = self._gather([*self._used, *held.buffers], [share], tensors)
        rest = self._distribute(self._gather.program, outputs)
        held.clean = False
        eager.position += 1
        if eager.position == recipe.accumulate:
            self._end(scale, rest)
        return outputs[0]

    def _end(self, scale: float, rest: list[Tensor]) -> None:
        """Update with what was gathered, unless it is not finite or the update is not the recorded one."""
        binding, eager, held = self._binding, self._eager, self._accumulation
        values, flags = binding.numbers()
        if flags != self._update.program.flags:
            binding.take_back()
            self._changed = True
            binding.stepped_outside()
            eager.update()
            return
        eager.position = 0
        if rest and bool(rest[0]):
            binding.take_back()
            self.gradient_norm = held.norm(scale) if self.gradient_norm is not None else None
            held.make_zero()
        else:
            found = self._update([*binding.aliases, *held.buffers], [*values, 1.0 / scale], [])
            binding.advance()
            self.gradient_norm = found[0] if found else None
            held.clean = True
        if rest:
            eager.rescale(rest[0])
