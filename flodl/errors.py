"""Every way `flodl` can fail, with the place in the user's code that caused it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flodl.spec.graph import Problem


class FlodlError(Exception):
    """Root of all errors that flodl raises on purpose."""


class BuildError(FlodlError):
    """The description of a graph is wrong; `problems` lists everything that is.

    Attributes:
        problems: one entry per mistake, each with the call site in the user's code.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        count = len(problems)
        head = f"the graph has {count} wiring problem{'s' if count != 1 else ''}:"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in problems)]))


class FlowError(FlodlError):
    """A `flow` asked for something that a description cannot answer."""


class GraphError(FlodlError):
    """A built graph was used in a way that it does not offer."""
