"""A compiled step at work: the recorded program bound to the tensors of a live recipe."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, final

import torch

from flodl.step.tags import Tags

if TYPE_CHECKING:
    from torch import Tensor

    from flodl.step.artifact import Compiled
    from flodl.step.binding import Binding
    from flodl.step.program import Program


@final
class CompiledStep:
    """Calls the compiled program on the tensors of a binding.

    Attributes:
        metrics: those of the last step.
        gradient_norm: that of the last step, if it clips.
    """

    def __init__(self, program: Program, call: Compiled, binding: Binding) -> None:
        self._program = program
        self._call = call
        self._binding = binding
        self._device = binding.recipe.device()
        values, _ = binding.numbers()
        binding.take_back()
        # The numbers of a step are written into memory that the tensor shares.
        self._values = array("d", values)
        self._numbers = torch.frombuffer(self._values, dtype=torch.float64)
        self._constants = list(program.constants)
        self._tags = Tags(binding.recipe.model)
        self.metrics: dict[str, Tensor] = {}
        self.gradient_norm: Tensor | None = None

    def stale(self) -> str | None:
        """Return why the binding no longer holds."""
        if self._tags.changed():
            return "other tags are observed"
        return self._binding.stale()

    def _distribute(self, outputs: list[Tensor]) -> None:
        """Put what comes after the loss where it is looked for."""
        program = self._program
        names, tagged = program.metrics, program.tags.count
        self.metrics = dict(zip(names, outputs[1:], strict=False))
        if len(outputs) > 1 + len(names) + tagged:
            self.gradient_norm = outputs[1 + len(names)]
        if tagged:
            self._tags.put(outputs[-tagged:], program.tags)

    def __call__(self, tensors: list[Tensor]) -> Tensor | None:
        """Run the step on the tensors of a batch; nothing if the update is no longer the recorded one."""
        binding = self._binding
        values, flags = binding.numbers()
        if flags != self._program.flags:
            binding.take_back()
            return None
        self._values[:] = array("d", values)
        numbers = self._numbers
        if self._device.type != "cpu":
            numbers = numbers.clone().pin_memory().to(self._device, non_blocking=True)
        outputs = self._call([*binding.aliases, numbers, *tensors, *self._constants])
        binding.advance()
        if len(outputs) > 1:
            self._distribute(outputs)
        return outputs[0]  # type: ignore[no-any-return]
