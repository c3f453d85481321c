"""The facts about a graph that a picture needs, gathered by code that knows torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from flodl.ir.graph import GraphSpec


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """The cost of one node: the amount that colours it and the text that shows it."""

    amount: float
    text: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One graph to draw, with the graphs nested in it.

    Attributes:
        spec: the description.
        title: the class name of the graph, or its label.
        kinds: class names of the submodules, by dotted path.
        settings: what `extra_repr()` says of the submodules, in one line, by dotted path.
        parameters: numbers of parameter elements of the submodules, by dotted path.
        inner: the graphs among the submodules, by dotted path.
        hidden: nodes that compute sizes and the like; pictures leave them out.
        shapes: the known shapes of the values, such as `float32[8, 16]`, by node.
        heat: costs by node; empty for a picture without a heat map.
        stages: costs of modules by dotted path, for those that lie in a step, such as experts of a gate.
        stage_shapes: shapes of what those modules return, where it is always the same one.
        measure: the measure of `heat`, such as `forward time`.
        total: the sum that the legend of a heat map states.
        unknown: why the wiring is unknown; the steps then lie side by side.  Empty if it is known.
    """

    spec: GraphSpec
    title: str
    kinds: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    inner: Mapping[str, Part] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()
    shapes: Mapping[int, str] = field(default_factory=dict)
    heat: Mapping[int, Heat] = field(default_factory=dict)
    stages: Mapping[str, Heat] = field(default_factory=dict)
    stage_shapes: Mapping[str, str] = field(default_factory=dict)
    measure: str = ""
    total: str = ""
    unknown: str = ""
