"""A flow module's methods for its recorded plans: describe, build, rebuild."""

from __future__ import annotations

from typing import Any, Self

import torch

from flodl.graph.yielding import YieldingNamesMixin


class PlanMixin(YieldingNamesMixin):
    """Methods of a flow module for its recorded plans.

    Example:
        >>> import torch
        >>> from flodl import FlowModule
        >>> class Rows(FlowModule):
        ...     def flow(self, x):
        ...         return x.reshape(len(x), -1)
        >>> rows = Rows()
        >>> rows.describe()
        False
        >>> "reshape" in rows.build(torch.ones(2, 3, 4)).code
        True
    """

    def describe(self) -> bool:
        """Describe the flow without values, in training and evaluation mode, where that is possible.

        Returns:
            Whether the flow is described; if not, the first call records it.
        """
        from flodl.module.flow_module import describe

        return describe(self)

    def build(self, *example: Any, **named: Any) -> Self:
        """Record the flow for example inputs, without keeping the result.

        Needed only before `torch.compile(fullgraph=True)` or `torch.export` is the first to call a flow
        that needs sizes or other values.  Runs one forward under `torch.no_grad()`.

        Args:
            *example: example inputs, as for a call.
            **named: keyword inputs.

        Returns:
            The module itself.
        """
        with torch.no_grad():
            self(*example, **named)
        return self

    def rebuild(self) -> Self:
        """Forget all recorded plans; the next call records again.  Returns the module itself."""
        from flodl.module.flow_module import rebuild

        rebuild(self)
        return self
