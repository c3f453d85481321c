"""Text forms of a graph: the description in force, its generated code, its Graphviz text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flodl.errors import NotRecordedError

if TYPE_CHECKING:
    from flodl.graph.compiled_plan import CompiledPlan
    from flodl.ir.graph import GraphSpec


# A guard on a number also tells 1 from 1.0 and True; a reader need not see that.
_GUARD = re.compile(r"\(_v := (\S+)\) == (\S+) and type\(_v\) is \w+")


def spec_of(graph: Any) -> GraphSpec:
    """Return the most recently recorded description of a graph.

    Raises:
        NotRecordedError: the flow has not been recorded yet.
    """
    spec: GraphSpec = _recorded(graph)[-1].spec
    return spec


def code_of(graph: Any) -> str:
    """Return the generated source of a graph's forward, one text per recorded plan.

    Raises:
        NotRecordedError: the flow has not been recorded yet.
    """
    parts = []
    for program in _recorded(graph):
        condition = _GUARD.sub(r"\1 == \2", program.code.accepts)
        head = "" if condition == "True" else f"# when {condition}\n"
        parts.append(head + program.code.source)
    return "\n".join(dict.fromkeys(parts))


def kinds_of(module: Any) -> dict[str, str]:
    """Map each submodule path to its class name."""
    return {path: type(each).__name__ for path, each in module.named_modules() if path}


def _recorded(graph: Any) -> tuple[CompiledPlan, ...]:
    programs: tuple[CompiledPlan, ...] = graph._flodl_programs()
    if not programs:
        message = (
            f"the flow of {type(graph).__name__} is recorded at its first call; call the module once, "
            "or build(example_input)"
        )
        raise NotRecordedError(message)
    return programs
