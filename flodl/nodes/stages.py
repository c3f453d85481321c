"""Running a stage - a module, a callable, or a chain of those - on a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torch import nn

from flodl.nodes.fast_path import must_run_plainly, run, run_plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_CHAINS: Final = (nn.ModuleList, tuple, list)


def apply_stage(stage: Any, x: Any) -> Any:
    """Return the result of a stage: `stage(x)`, or a chain run in order."""
    return _apply(stage, x, run_plainly if must_run_plainly() else run)


def apply_each(stages: Sequence[Any], x: Any) -> list[Any]:
    """Return the results of several stages on the same value."""
    call = run_plainly if must_run_plainly() else run
    return [_apply(each, x, call) for each in stages]


def _apply(stage: Any, x: Any, call: Callable[[nn.Module, Any], Any]) -> Any:
    if isinstance(stage, _CHAINS):
        for each in stage:
            x = _apply(each, x, call)
        return x
    return call(stage, x) if isinstance(stage, nn.Module) else stage(x)


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
