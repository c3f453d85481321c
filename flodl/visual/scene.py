"""The content of a picture: boxes that may hold inner scenes, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

from flodl.visual.part import TensorValues

Role = Literal[
    "input", "output", "entry", "layer", "activation", "norm", "operation", "operator", "merge",
    "loop", "item", "graph", "repeat", "state", "choice", "pool", "dropout", "shape",
]  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One thing to draw.

    Attributes:
        role: decides shape and colour.
        title: the first line.
        lines: smaller lines below it.
        tags: names that the user gave to the value.
        note: the text that hovering shows.
        facts: everything that is known about the step, as pairs of a word and a text.
        tensors: names of parameters and buffers, each with what is known about it.
        values: the values of those tensors, by name.
        times: how many alike steps the box stands for.
        heat: 0 to 1 on the colour scale, `None` without a heat map.
        cost: the text of the heat.
        inner: the content, for nested graphs and repeated blocks.
        is_open: whether the inside is shown in a still picture.
    """

    role: Role
    title: str
    lines: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    note: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    tensors: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, TensorValues] = field(default_factory=dict)
    times: int = 1
    heat: float | None = None
    cost: str = ""
    inner: Scene | None = None
    is_open: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A value that goes from one box to another, by position in the scene."""

    source: int
    target: int
    label: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Boxes in execution order; every link goes from an earlier box to a later one.

    `carried` are the links of states: from the box that writes one back to the box that reads it in the
    next call.
    """

    title: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    legend: str = ""
    carried: tuple[Link, ...] = ()
