"""Reading what the turns of a graph's loops published in the last forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.errors import GraphError, UnknownNameError
from flodl.inspect.paths import graph_only
from flodl.ir.graph import Submodule
from flodl.nodes.loop_body import LoopBody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from flodl.ir.graph import GraphSpec

_UNNAMED = ""  # the result of `LoopBody.trace`; its key is the tag of the loop


def read_traces(module: nn.Module, name: str) -> list[Tensor]:
    """Return the values that were published under a name, one per turn that published it.

    Args:
        module: a graph; loops of nested graphs are searched, too.
        name: the name that a `LoopBody` published, or the tag of a loop whose body has `trace()`.

    Raises:
        GraphError: two loops have that name, or the module is no graph.
        UnknownNameError: nothing was published under it.
    """
    graph = graph_only(module)
    found = {
        path: traces[name]
        for path, traces in _bodies(graph)
        if name in traces and name != _UNNAMED
    }
    for program in graph._flodl_programs()[-1:]:
        found.update(_of_tag(graph, program.spec, name))
    if len(found) > 1:
        message = (
            f"`{name}` is a trace of several loops: {', '.join(found)}; give them other names"
        )
        raise GraphError(message)
    if not found:
        raise UnknownNameError(_nothing(graph, name))
    return list(next(iter(found.values())))


def _bodies(graph: nn.Module) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    for path, module in graph.named_modules():
        if isinstance(module, LoopBody):
            yield path, vars(module)["_traces"] or {}


def _of_tag(graph: nn.Module, spec: GraphSpec, name: str) -> Iterator[tuple[str, list[Any]]]:
    for tag in spec.tags:
        body = _body_of(spec, tag.node) if tag.name == name else None
        module = graph.get_submodule(body) if body else None
        if isinstance(module, LoopBody):
            traces = vars(module)["_traces"] or {}
            if _UNNAMED in traces:
                yield f"{body} (tag)", traces[_UNNAMED]


def _body_of(spec: GraphSpec, index: int) -> str | None:
    node = spec.nodes[index]
    is_loop = node.kind == "function" and node.target.startswith("loop_")
    body = node.args[1] if is_loop and len(node.args) > 1 else None
    return body.path if isinstance(body, Submodule) else None


def _nothing(graph: nn.Module, name: str) -> str:
    bodies = dict(_bodies(graph))
    if not bodies:
        return (
            f"there is no trace `{name}`: no loop of this graph has a flodl.LoopBody as its body"
        )
    known = sorted({each for traces in bodies.values() for each in traces if each != _UNNAMED})
    return f"no turn of the last forward published `{name}` (published: {', '.join(known) or 'nothing'})"
