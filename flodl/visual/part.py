"""The facts about a graph that a picture needs, gathered by code that knows torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from flodl.ir.graph import GraphSpec, NodeSpec


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """The cost of one node: the amount that colours it and the text that shows it."""

    amount: float
    text: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorValues:
    """All values of a tensor, as a page holds them, or why it does not.

    Attributes:
        name: the full name of the tensor in its model.
        shape: its shape.
        dtype: its dtype, such as `float32`.
        data: the bytes of its values, in order and little-endian, as base64.
        packed: whether these bytes are deflated.
        table: the 256 values of a dtype of one byte that browsers do not know, as float32 in base64.
        left_out: why the values are not here; empty if they are.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: str = ""
    packed: bool = False
    table: str = ""
    left_out: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One graph to draw, with the graphs nested in it.

    Attributes:
        spec: the description.
        title: the class name of the graph, or its label.
        kinds: class names of the submodules, by dotted path.
        lambdas: sources of the lambdas that steps call, by their name in the description.
        settings: what `extra_repr()` says of the submodules, in one line, by dotted path.
        parameters: numbers of parameter elements of the submodules, by dotted path.
        inner: the graphs among the submodules, by dotted path.
        hidden: nodes that compute sizes and the like; pictures leave them out.
        shapes: the known shapes of the values, such as `8x16`, by node.
        types: shapes and types of the values, such as `8x16 float32`, those in tuples included, by node.
        details: further facts as pairs of a word and a text: of modules by dotted path, with that of the
            graph empty, and of functions by `details_key`; only pages show them.
        tensors: names of the tensors of modules with type, shape and values, by dotted path; only pages
            show them.
        values: the values of those tensors, by the same paths and names.
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
    lambdas: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    inner: Mapping[str, Part] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()
    shapes: Mapping[int, str] = field(default_factory=dict)
    types: Mapping[int, str] = field(default_factory=dict)
    details: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    tensors: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, TensorValues]] = field(default_factory=dict)
    heat: Mapping[int, Heat] = field(default_factory=dict)
    stages: Mapping[str, Heat] = field(default_factory=dict)
    stage_shapes: Mapping[str, str] = field(default_factory=dict)
    measure: str = ""
    total: str = ""
    unknown: str = ""


def details_key(node: NodeSpec) -> str:
    """Return the key of the details of a step that calls no module.

    Example:
        >>> from flodl.ir.graph import NodeSpec
        >>> from flodl.visual.part import details_key
        >>> details_key(NodeSpec(index=1, kind="method", target="mean", name="mean_1"))
        'method mean'
    """
    return f"{node.kind} {node.target}"
