"""Names of values: the path of a module, or that of a flow and the author's variable in it.

h.0            what the first block gives
h.0.attn.att   the variable `att` in the flow of its attention
h.*.attn.att   that of every block; `**` also matches dots
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, final

from torch import nn

from flodl.errors import NotRecordedError
from flodl.graph.observed import value_names
from flodl.graph.planned_module import PlannedModule
from flodl.ir.graph import NOWHERE
from flodl.observe.metrics import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flodl.ir.graph import GraphSpec


_NEVER_CALLED = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueName:
    """One value that has a name.

    Attributes:
        name: the full name.
        kind: `output` of a module, or `value` of a flow.
        line: where the author wrote it, such as `model.py:12`, of an output that of the last call; empty if
            that is unknown: a flow was recorded, or inputs are given, to know it.
        shape: the shape and dtype it had, such as `2x8 float32`; empty if no inputs were given.
    """

    name: str
    kind: str
    line: str = ""
    shape: str = ""


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> re.Pattern[str]:
    """Return a name with `*` (all but dots) and `**` (everything) as a regular expression.

    Example:
        >>> bool(pattern_of("h.*.att").fullmatch("h.0.att")), bool(pattern_of("h.*").fullmatch("h.0.att"))
        (True, False)
        >>> bool(pattern_of("x[1]").fullmatch("x[1]"))
        True
    """
    parts = re.split(r"(\*\*|\*)", text)
    texts = {"**": ".*", "*": r"[^.]*"}
    return re.compile("".join(texts.get(part, re.escape(part)) for part in parts))


def matches(patterns: Iterable[str], name: str) -> bool:
    """Return True if a name fits one of the patterns."""
    return any(pattern_of(each).fullmatch(name) for each in patterns)


def joined(path: str, name: str) -> str:
    """Return the full name of a value of the module at a path."""
    return f"{path}.{name}" if path else name


def flows_in(module: nn.Module) -> Iterator[tuple[str, PlannedModule]]:
    """Yield the graphs and flow modules of a model with their paths, shared ones at each path."""
    for path, each in module.named_modules(remove_duplicate=False):
        if isinstance(each, PlannedModule):
            yield path, each


def specs_in(module: PlannedModule) -> Iterator[GraphSpec]:
    """Yield the descriptions of a flow that are known, oldest first."""
    for plans in module._flodl_plans.values():
        for program in plans.programs:
            yield program.spec


def known_names(module: nn.Module, *, numbered: bool = False) -> dict[str, ValueName]:
    """Return all names of a model as far as its flows have been recorded, outputs first.

    Args:
        module: any module.
        numbered: whether `x[0]` is listed for a variable that has one value only.
    """
    found = {
        path: ValueName(name=path, kind="output")
        for path, part in module.named_modules(remove_duplicate=False)
        if path and not isinstance(part, _NEVER_CALLED)
    }
    for path, flow in flows_in(module):
        for spec in specs_in(flow):
            found |= _called_outputs(path, spec, found)
            labels = value_names(spec)
            for label, node in labels.items():
                if label.endswith("[0]") and f"{label[:-3]}[1]" not in labels and not numbered:
                    continue
                name = joined(path, label)
                site = str(spec.nodes[node].site)
                line = "" if spec.nodes[node].kind == "input" else site
                found.setdefault(name, ValueName(name=name, kind="value", line=line))
    return found


def _called_outputs(
    path: str, spec: GraphSpec, found: Mapping[str, ValueName]
) -> dict[str, ValueName]:
    """Return the outputs of the modules that the flow at a path calls, with the line of the last call."""
    calls = (
        (joined(path, node.target), str(node.site))
        for node in spec.nodes
        if node.kind == "module" and node.site != NOWHERE
    )
    return {name: replace(found[name], line=line) for name, line in calls if name in found}


def require(module: nn.Module, patterns: Iterable[str]) -> None:
    """Refuse patterns that no name fits, where all names are known.

    Raises:
        UnknownNameError: nothing has such a name; the message names one that is close.
    """
    names = known_names(module, numbered=True)
    for each in patterns:
        if any(pattern_of(each).fullmatch(name) for name in names):
            continue
        unrecorded = [
            path for path, flow in flows_in(module) if not any(True for _ in specs_in(flow))
        ]
        if not unrecorded:
            raise unknown("value", each, list(names))


def require_recorded(module: nn.Module) -> None:
    """Refuse a model whose flows are not recorded yet; parts that no recorded flow calls do not count.

    Raises:
        NotRecordedError: the names of its values are not known.
    """
    flows = dict(flows_in(module))
    specs = {path: tuple(specs_in(flow)) for path, flow in flows.items()}
    called = {
        joined(path, node.target)
        for path, known in specs.items()
        for spec in known
        for node in spec.nodes
        if node.kind == "module"
    }
    has_run = any(specs.values())
    for path, flow in flows.items():
        if specs[path] or not flow._flodl_runs_plans or (has_run and path and path not in called):
            continue
        shown = f"`{path}` ({type(flow).__name__})" if path else type(flow).__name__
        message = f"the flow of {shown} has not run yet, so its values have no names: "
        raise NotRecordedError(f"{message}call the model once, or give example inputs")
