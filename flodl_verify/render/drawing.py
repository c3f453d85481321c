"""Drawings of a model in the formats of a request."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

import torch

from flodl import view
from flodl.errors import GraphError
from flodl.graph.observed import twin_of
from flodl.graph.planned_module import PlannedModule
from flodl.inspect.comparison import ModelDiff, ModelFacts, coloured, compare, facts, read_facts
from flodl.inspect.drawing import part_of
from flodl.inspect.facts.details import detailed
from flodl.inspect.heat import measured_part, profiled_part, shaped_part
from flodl.inspect.pictures import flow_text
from flodl.inspect.summary import Summary, summary
from flodl.inspect.timing import enable_profiling
from flodl.visual.assemble import View
from flodl.visual.dot import dot_of
from flodl.visual.mermaid import mermaid_text
from flodl.visual.page import html_text
from flodl.visual.svg import svg_text
from flodl_verify.render.protocol import Format, RenderError, Request, Response, Weights
from flodl_verify.render.subject import find_subject, list_models

if TYPE_CHECKING:
    from torch import nn

    from flodl.visual.part import Part
    from flodl_verify.render.subject import Arguments, Subject

WARM_RUNS = 3
SUMMARIES = ("summary", "sizes", "rows")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What some formats need: what was found out about the model, and whose values a page holds."""

    diff: ModelDiff | None
    summary: Summary | None
    weights: Weights


def draw(request: Request) -> Response:
    """Return the pictures of the model that a request names.

    Raises:
        RenderError: the model cannot be made, called or measured.
    """
    if not request.name:
        return Response(title=request.file.name, models=list_models(request))
    subject = find_subject(request)
    try:
        part = _part(subject, request)
    except GraphError as problem:
        measured = request.heat != "none"
        raise RenderError(
            "cannot-measure" if measured else "cannot-draw",
            str(problem),
            "draw it without --heat" if measured else f"name another model of {request.file.name}",
        ) from problem
    look = View(fold=request.fold, depth=request.depth, direction=request.direction)
    diff = None
    if request.before:
        diff = compare(read_facts(request.before), _facts(subject))
        part = coloured(part, diff)
    found = _Found(diff=diff, summary=_summary(subject, request), weights=request.weights)
    return Response(
        title=part.title,
        example=subject.example,
        nodes=len(part.spec.nodes),
        parameters=sum(each.numel() for each in subject.graph.parameters()),
        pictures=tuple(
            (each, _picture(subject, part, each, look, found)) for each in request.formats
        ),
    )


def _part(subject: Subject, request: Request) -> Part:
    graph = subject.graph
    if subject.arguments is None:
        return part_of(graph)
    args, kwargs = subject.arguments
    match request.heat:
        case "time":
            enable_profiling(graph)
            with torch.no_grad():
                for _ in range(WARM_RUNS):
                    graph(*args, **kwargs)
            return profiled_part(graph)
        case "backward" | "memory":
            return measured_part(graph, request.heat, *args, **kwargs)
        case "none" if isinstance(graph, PlannedModule):
            return shaped_part(graph, *args, **kwargs)
        case "none":
            return _shaped_if_possible(graph, subject.arguments)


def _shaped_if_possible(module: nn.Module, arguments: Arguments) -> Part:
    """Return the part of a plain module, with shapes if a copy of it can be made and called."""
    args, kwargs = arguments
    try:
        return shaped_part(module, *args, **kwargs)
    except Exception:  # copying and calling run code of the user, and shapes are an extra
        return part_of(module)


def _values(subject: Subject) -> str:
    """Return a table of the values by name, with shapes and lines as far as a call on a copy shows them."""
    args, kwargs = subject.arguments or ((), {})
    twin = twin_of(subject.graph)
    with torch.random.fork_rng():
        named = view(twin).names("**", *args, **kwargs)
    has_lines = any(each.line for each in named)
    rows = [("value", "shape", "line" if has_lines else "")]
    rows += [(each.name, each.shape, each.line.rpartition(os.sep)[2]) for each in named]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = (
        f"{name:{widths[0]}}  {shape:{widths[1]}}  {line}".rstrip() for name, shape, line in rows
    )
    return "\n".join(lines) + "\n"


def _summary(subject: Subject, request: Request) -> Summary | None:
    if not set(SUMMARIES) & set(request.formats):
        return None
    args, kwargs = subject.arguments or ((), {})
    return summary(subject.graph, *args, timed=request.heat == "time", **kwargs)


def _facts(subject: Subject) -> ModelFacts:
    args, kwargs = subject.arguments or ((), {})
    return facts(subject.graph, *args, **kwargs)


def _picture(subject: Subject, part: Part, wanted: Format, look: View, found: _Found) -> str:
    match wanted:
        case "svg":
            return svg_text(part, look)
        case "html":
            return html_text(detailed(subject.graph, part, found.weights), look)
        case "dot":
            return dot_of(part)
        case "mermaid":
            return mermaid_text(part, look)
        case "summary" | "sizes" | "rows":
            assert found.summary is not None, "it is made if one of these is requested"
            return _summary_text(found.summary, wanted)
        case "text" | "values" | "facts" | "diff" | "changes":
            return _text(subject, wanted, found.diff)


def _summary_text(found: Summary, wanted: Literal["summary", "sizes", "rows"]) -> str:
    match wanted:
        case "summary":
            return f"{found}\n"
        case "sizes":
            return f"{found.values_text}\n"
        case "rows":
            return found.to_json()


def _text(
    subject: Subject,
    wanted: Literal["text", "values", "facts", "diff", "changes"],
    found: ModelDiff | None,
) -> str:
    match wanted:
        case "values":
            return _values(subject)
        case "facts":
            return _facts(subject).to_json()
        case "diff":
            return f"{found}\n"
        case "changes":
            return "" if found is None else found.to_json()
        case "text":
            return f"{flow_text(subject.graph)}\n"
