"""Running a stage - a module, a callable, or a chain of those - on a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Mapping


def apply_stage(stage: Any, x: Any) -> Any:
    """Return the result of a stage: `stage(x)`, or a chain run in order."""
    if isinstance(stage, (tuple, list, nn.ModuleList)):
        for each in stage:
            x = apply_stage(each, x)
        return x
    return stage(x)


def apply_with(stage: Any, x: Any, refs: Mapping[str, Any]) -> Any:
    """Return the result of a stage that also gets tagged values.

    A module with `forward_named(x, refs)` gets the dict; any other stage gets the values as further
    positional arguments, in order.
    """
    if not refs:
        return apply_stage(stage, x)
    if isinstance(stage, nn.Module) and "forward_named" in dir(type(stage)):
        return stage.forward_named(x, refs)  # type: ignore[operator]
    return stage(x, *refs.values())
