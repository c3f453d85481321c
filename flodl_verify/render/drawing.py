"""Drawings of a model in the formats of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flodl.errors import GraphError
from flodl.graph.planned_module import PlannedModule
from flodl.inspect.comparison import ModelDiff, ModelFacts, coloured, compare, facts, read_facts
from flodl.inspect.drawing import part_of
from flodl.inspect.heat import measured_part, profiled_part, shaped_part
from flodl.inspect.pictures import flow_text
from flodl.inspect.summary import summary
from flodl.inspect.timing import enable_profiling
from flodl.visual.assemble import View
from flodl.visual.dot import dot_of
from flodl.visual.mermaid import mermaid_text
from flodl.visual.page import html_text
from flodl.visual.svg import svg_text
from flodl_verify.render.protocol import Format, RenderError, Request, Response
from flodl_verify.render.subject import find_subject, list_models

if TYPE_CHECKING:
    from flodl.visual.part import Part
    from flodl_verify.render.subject import Subject

WARM_RUNS = 3


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
    view = View(fold=request.fold, depth=request.depth)
    found = None
    if request.before:
        found = compare(read_facts(request.before), _facts(subject))
        part = coloured(part, found)
    return Response(
        title=part.title,
        example=subject.example,
        nodes=len(part.spec.nodes),
        parameters=sum(each.numel() for each in subject.graph.parameters()),
        pictures=tuple(
            (each, _picture(subject, part, each, view, found)) for each in request.formats
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
            return part_of(graph)


def _facts(subject: Subject) -> ModelFacts:
    args, kwargs = subject.arguments or ((), {})
    return facts(subject.graph, *args, **kwargs)


def _picture(
    subject: Subject, part: Part, wanted: Format, view: View, found: ModelDiff | None
) -> str:
    match wanted:
        case "svg":
            return svg_text(part, view)
        case "html":
            return html_text(part, view)
        case "dot":
            return dot_of(part)
        case "mermaid":
            return mermaid_text(part, view)
        case "summary":
            args, kwargs = subject.arguments or ((), {})
            return f"{summary(subject.graph, *args, **kwargs)}\n"
        case "facts":
            return _facts(subject).to_json()
        case "diff":
            return f"{found}\n"
        case "changes":
            return "" if found is None else found.to_json()
        case "text":
            return f"{flow_text(subject.graph)}\n"
