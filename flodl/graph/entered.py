"""A context manager of the user's around nodes of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from flodl.errors import FlowError

if TYPE_CHECKING:
    from types import TracebackType


@final
class entered:  # noqa: N801 - generated code reads `with entered(context) as value:`
    """Enters and leaves a context manager; an error inside must not end there.

    The steps after the block were recorded for a block that ran to its end.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> Any:
        return type(self._context).__enter__(self._context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        swallowed = type(self._context).__exit__(self._context, kind, error, trace)
        if error is not None and swallowed:
            raise FlowError(swallowing(self._context)) from error


def swallowing(context: object) -> str:
    """Return the message about a context manager that keeps an error to itself."""
    name = type(context).__name__
    return (
        f"the context manager {name} of a `with` block ended an error inside the block, and a flow does not "
        "say how it goes on then; keep this part as a callable: x.through(function)"
    )
