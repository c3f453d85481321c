"""The line that the user wrote, and the variable that it assigns."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from flodl.bytecode.decode import instructions, running_offset
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import STORES, Kind
from flodl.ir.graph import NOWHERE, Site

if TYPE_CHECKING:
    from types import CodeType, FrameType

_TORCH: Final = str(Path(torch.__file__).parent)
_INTERNAL = (str(Path(__file__).parents[1]), _TORCH, "<frozen")
# The file name of generated forwards. Operations of a layer of torch are attributed to its
# forward, and not to the caller of that; but a forward that became a step was written above it.
GENERATED: Final = "<flodl forward>"
STEP_LINE: Final = 3


@lru_cache(maxsize=1024)
def _is_internal(filename: str) -> bool:
    return filename.startswith(_INTERNAL)


def user_frame(depth: int = 2) -> FrameType | None:
    """Return the innermost frame that belongs neither to flodl nor to torch."""
    frame: FrameType | None = sys._getframe(depth)  # the documented way to walk frames
    while frame is not None and (
        _is_internal(frame.f_code.co_filename)
        or (frame.f_lineno == STEP_LINE and frame.f_code.co_filename == GENERATED)
    ):
        frame = frame.f_back
    return frame


def is_user_frame(frame: FrameType) -> bool:
    """Return True if a frame runs code that belongs neither to flodl nor to torch."""
    return not _is_internal(frame.f_code.co_filename)


def is_torch_frame(frame: FrameType) -> bool:
    """Return True if a frame runs code of torch."""
    return frame.f_code.co_filename.startswith(_TORCH)


def site_of(frame: FrameType | None) -> Site:
    """Return file and line of a frame."""
    if frame is None:
        return NOWHERE
    return Site(file=frame.f_code.co_filename, line=frame.f_lineno)


def call_site() -> Site:
    """Return the user's line that led to the caller of this function."""
    return site_of(user_frame(2))


@kept_by_identity
def _targets(code: CodeType) -> dict[int, tuple[str, ...]]:
    """Map each instruction offset to the names its result is stored in, where it is stored at once.

    `x = f(y)` gives `("x",)` at the call, `a, b = f(y)` gives `("a", "b")`.
    """
    found: dict[int, tuple[str, ...]] = {}
    steps = instructions(code)
    for position, step in enumerate(steps[:-1]):
        after = steps[position + 1]
        if step.kind is Kind.UNPACK:
            continue
        # pytest gives the parts of an `assert` names that are none in Python.
        if after.kind in STORES and after.name.isidentifier():
            found[step.offset] = (after.name,)
        elif after.kind is Kind.UNPACK:
            stores = steps[position + 2 : position + 2 + after.count]
            if all(store.kind in STORES for store in stores):
                names = tuple(store.name if store.name.isidentifier() else "_" for store in stores)
                found[step.offset] = found[after.offset] = names
    return found


@kept_by_identity
def _unpack_sizes(code: CodeType) -> dict[int, int]:
    return {step.offset: step.count for step in instructions(code) if step.kind is Kind.UNPACK}


def assigned_names(frame: FrameType | None) -> tuple[str, ...]:
    """Return the variable names that the running instruction's result goes to, if any."""
    if frame is None:
        return ()
    return _targets(frame.f_code).get(running_offset(frame), ())


def unpack_size(frame: FrameType | None) -> int | None:
    """Return n if the frame is unpacking a value into n targets (`a, b = value`), else None."""
    if frame is None:
        return None
    return _unpack_sizes(frame.f_code).get(running_offset(frame))
