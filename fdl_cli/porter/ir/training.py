"""What is known about the training loops of a file, and how they are to be moved."""

from dataclasses import dataclass
from typing import Literal, final

from fdl_cli.porter.ir.source import Span

TrainingLevel = Literal["keep", "setup", "builder"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIR:
    """A loop that takes one optimizer step for each backward pass.

    `model` and `optimizer` are expressions of the source. `before` is where the loop (or the loop
    around it) starts; `zero_grad` and `clip` are statements that become part of the step.
    `max_norm` is the text of the clipping limit. `trouble` says why the loop stays as it is.
    """

    line: int
    before: int
    model: str
    optimizer: str
    zero_grad: Span | None
    clip: Span | None
    max_norm: str
    step: Span | None
    trouble: str
