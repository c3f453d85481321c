"""The reach of a call, up to its error: the measure for the search of inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.values.snapshot import tensors_in

_TORCH = str(Path(torch.__file__).parent)
_NO_TENSOR = Failure(text="it returns no tensor", line=None)
_NO_NUMBER = Failure(text="it computes nothing but NaN", line=None)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    """The outcome of one call: without a failure, it came to its end and returned numbers.

    `places` counts the lines that called torch, `steps` the calls: a loop that turns more often
    is no progress, but of two calls that saw the same lines the longer one is nearer to the end.
    """

    places: int
    steps: int
    failure: Failure | None

    @property
    def progress(self) -> tuple[int, int]:
        """Order of calls that failed: later is better."""
        return self.places, self.steps


def reach_of(call: Callable[[], object], file: Path) -> CallProgress:
    """Run a call and measure it; `file` is the one whose lines failures name."""
    counter = _Counter()

    def counted() -> object:
        with torch.no_grad(), counter:
            return call()

    outcome = attempt(counted, file)
    failure = outcome if isinstance(outcome, Failure) else None
    if failure is None:
        failure = _nothing_in(outcome)
    return CallProgress(places=len(counter.places), steps=counter.steps, failure=failure)


def _nothing_in(outcome: object) -> Failure | None:
    """Return why the result of a model has nothing to compare, if so."""
    found = [item for _, item in tensors_in(outcome, draw=True)]
    if not found:
        return _NO_TENSOR
    floats = [item for item in found if item.is_floating_point() and item.numel()]
    is_nan = bool(floats) and all(bool(torch.isnan(item).all()) for item in floats)
    return _NO_NUMBER if is_nan else None


@final
class _Counter(TorchFunctionMode):
    """Counts the calls of torch functions that did not raise, and the lines they came from."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[tuple[str, int]] = set()
        self.steps = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        self.steps += 1
        self.places.add(_place(sys._getframe(1)))
        return result


def _place(frame: FrameType | None) -> tuple[str, int]:
    """Return the line outside of torch that led here."""
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
