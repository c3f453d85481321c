"""Lines of the author's code at which the outputs of modules arise, read from the stack while a model runs.

    12      def forward(self, x):
    13          return torch.relu(self.lin(x))   ->   lin: model.py:13

Frames of torch and flodl are left out: a layer of an `nn.Sequential` has the line at which that is called.
The stack of a flow ends in generated code; its description has the lines.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from torch import nn

    from flodl.inspect.values.names import ValueName

# The text of a flow, and a generated forward.
_GENERATED: Final = "<flodl"
_SKIPPED: Final = tuple(
    f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[2])
)


def called(module: nn.Module, *inputs: Any, **named: Any) -> Any:
    """Call a module; `running_line` looks no further out than this call."""
    return module(*inputs, **named)


def running_line() -> str:
    """Return the innermost line of the author's code below `called`, empty if there is none."""
    frame: FrameType | None = sys._getframe(1)  # the documented way to walk frames
    while frame is not None and frame.f_code is not called.__code__:
        file = frame.f_code.co_filename
        if file.startswith(_GENERATED):
            return ""
        if not file.startswith(_SKIPPED):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def line_of(value: ValueName, lines: Mapping[str, str]) -> str:
    """Return the line of a value: that of the description, or of an output that which was running.

    Args:
        value: the value, with the line of the description of its flow.
        lines: what `running_line` returned when a value of each name came.
    """
    return value.line or (lines.get(value.name, "") if value.kind == "output" else "")
