"""A graph's methods that show what was described: the description, its generated code, its Graphviz text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, overload

from flodl.graph.yielding import YieldingNamesMixin

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.ir.graph import GraphSpec

_T = TypeVar("_T")


@final
class Reading(Generic[_T]):
    """A value that is computed when it is read, and makes way for an attribute of the same name.

    A `property` would forbid a user's class to set `self.code`; this has no `__set__`, so that the
    attribute of the instance wins (https://docs.python.org/3/howto/descriptor.html#invocation-from-an-instance).
    """

    def __init__(self, read: Callable[[Any], _T]) -> None:
        """Read with a function of the instance."""
        self._read = read
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Reading[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Reading[_T] | _T:
        return self if instance is None else self._read(instance)


class TextMixin(YieldingNamesMixin):
    """Methods of a graph that show its description.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.ReLU()).build()
        >>> print(graph.code)
        def forward(self, x):
            m = self._modules
            x = run(m["relu_1"], x)
            return x
        <BLANKLINE>
    """

    @Reading
    def spec(self) -> GraphSpec:
        """The description that is in force: the most recently recorded one.

        Raises:
            GraphError: the flow has not been recorded yet.
        """
        from flodl.graph.texts import spec_of

        return spec_of(self)

    @Reading
    def code(self) -> str:
        """The generated Python source of the forward, one text per recorded plan.

        Raises:
            GraphError: the flow has not been recorded yet.
        """
        from flodl.graph.texts import code_of

        return code_of(self)

    def dot(self) -> str:
        """Return the flow as a Graphviz `digraph`.

        Raises:
            GraphError: the flow has not been recorded yet.
        """
        from flodl.graph.texts import dot_of

        return dot_of(self)
