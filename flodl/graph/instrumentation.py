"""Taps on a running plan: tagged values, kept without their autograd graph, and times.

Both are variants of the generated code, so a plan that notes nothing pays nothing.  A tagged value
is one more output of its variant; under `torch.compile` it is one more output of the compiled graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.graph.codegen import Code, generate
from flodl.graph.observed import seeing
from flodl.graph.shape_nodes import metadata_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flodl.graph.compiled_plan import CompiledPlan
    from flodl.graph.observed import AbstractObserver
    from flodl.graph.profiling import Profiler
    from flodl.ir.graph import GraphSpec


@final
class Kept:
    """The tagged values of the last forward, by tag."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}


def detached(value: Any) -> Any:
    """Return a value, or the tensors of a nest, cut off from autograd; they share their storage."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        parts = [detached(each) for each in value]
        if isinstance(value, list):
            return parts
        # A namedtuple takes its fields one by one.
        return type(value)(*parts) if type(value) is not tuple else tuple(parts)
    if isinstance(value, dict):
        return {key: detached(each) for key, each in value.items()}
    return value


@final
class Watch:
    """The taps on the plans of one flow of one module; never shared between modules.

    Attributes:
        tags: the tags to keep, `None` for all that the user gave.
        profiler: notes when each node has run; `None` for no profile.
        inspect: called with the description and the values of all nodes, by index, instead of keeping
            tags; `None` except for measurements.
        values: the observers of single values, in the order in which they see them.
        kept: where tagged values go.
    """

    def __init__(
        self,
        tags: frozenset[str] | None = None,
        profiler: Profiler | None = None,
        inspect: Callable[[GraphSpec, dict[int, Any]], None] | None = None,
        values: tuple[AbstractObserver, ...] = (),
    ) -> None:
        self.tags = tags
        self.profiler = profiler
        self.inspect = inspect
        self.values = values
        self.kept = Kept()

    def observed_by(self, values: tuple[AbstractObserver, ...]) -> Watch:
        """Return the same taps with other observers of single values."""
        made = Watch(self.tags, self.profiler, self.inspect, values)
        made.kept = self.kept
        return made

    def taps(self, spec: GraphSpec) -> dict[str, int]:
        """Return the nodes to keep, by tag."""
        return {tag.name: tag.node for tag in spec.tags if self.wants(tag.name)}

    def keep(self, values: Mapping[str, Any]) -> None:
        """Keep the tagged values of a forward that no plan has run: the one that was recorded."""
        self.kept.values = {
            name: detached(value) for name, value in values.items() if self.wants(name)
        }

    def wants(self, tag: str) -> bool:
        """Return True if the value of a tag is to be kept."""
        return not tag.startswith("_") if self.tags is None else tag in self.tags

    def runs(self, program: CompiledPlan) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the functions that run a plan with its taps: fast form, plain form."""
        if self.inspect is not None:
            shown = _inspected(program, self.inspect)
            return shown.run, shown.run_plainly
        taps = self.taps(program.spec)
        code, plain = program.code, program
        names: dict[str, Any] = {"_kept": self.kept, "_detached": detached}
        seen, names["_see"] = seeing(self.values, program.spec, program.start)
        if taps or seen:
            code = generate(program.spec, program.constants, taps, program.start, seen)
            exporting = {"_is_exporting": torch.compiler.is_exporting}
            plain = program.variant(_unless_exporting(code), names | exporting)
        if self.profiler is not None:
            # Tracers get the code without marks: a time is nothing that a compiled graph could return.
            mark = self.profiler.marker(program.spec, program.start)
            fast = program.variant(with_marks(code), {**names, "_mark": mark})
        else:
            fast = program.variant(code, names) if taps or seen else program
        return fast.run, plain.run_plainly


@final
class _Inspection:
    """Receives all values of a forward in place of the tagged ones, and passes them on."""

    def __init__(
        self, spec: GraphSpec, inspect: Callable[[GraphSpec, dict[int, Any]], None]
    ) -> None:
        self._spec = spec
        self._inspect = inspect

    @property
    def values(self) -> dict[int, Any]:
        """Nothing is kept."""
        return {}

    @values.setter
    def values(self, values: dict[str, Any]) -> None:
        self._inspect(self._spec, {int(name): value for name, value in values.items()})


def _inspected(
    program: CompiledPlan, inspect: Callable[[GraphSpec, dict[int, Any]], None]
) -> CompiledPlan:
    metadata = metadata_nodes(program.spec)
    taps = {
        str(node.index): node.index
        for node in program.spec.nodes
        if node.index not in metadata
        and node.kind not in ("unpack", "setattr", "enter", "exit")
        and node.target not in ("setitem", "delitem")
    }
    code = generate(program.spec, program.constants, taps, program.start)
    names = {"_kept": _Inspection(program.spec, inspect), "_detached": _itself}
    return program.variant(code, names)


def _itself(value: Any) -> Any:
    return value


def _unless_exporting(code: Code) -> Code:
    """Return code that keeps no values while `torch.export` runs it with fake ones."""
    source = code.source.replace(
        "\n    _kept.values = ", "\n    if not _is_exporting(): _kept.values = "
    )
    return replace(code, source=source)


def with_marks(code: Code) -> Code:
    """Return code that calls `_mark(node)` after each statement, and `_mark(-1)` before the first."""
    source: list[str] = []
    nodes: list[tuple[int, ...]] = []
    lines = code.source.splitlines()
    started = False
    for number, line in enumerate(lines):
        here = code.nodes_of_line[number]
        is_body = number > 0 and line.startswith("    ")
        if is_body and not started and not _is_prologue(line):
            source.append("    _mark(-1)")
            nodes.append(())
            started = True
        source.append(line)
        nodes.append(here)
        following = code.nodes_of_line[number + 1] if number + 1 < len(lines) else ()
        # A loop is two lines of one node: the mark belongs behind the whole.
        if here and following != here and not line.lstrip().startswith("with "):
            first = code.nodes_of_line.index(here)
            indent = lines[first][: -len(lines[first].lstrip())]
            source.append(f"{indent}_mark({here[0]})")
            nodes.append(())
    return replace(code, source="\n".join(source) + "\n", nodes_of_line=tuple(nodes))


def _is_prologue(line: str) -> bool:
    return line.endswith("._modules") and " = " in line
