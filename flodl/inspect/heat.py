"""Heat maps of the cost of each node in time, in time of its backward pass, or in memory.

Times of a forward come from the profile of the model itself.  Backward and memory are measured by one run
of a copy, so that gradients, running statistics and the random state stay as they are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final

import torch

from flodl.errors import GraphError
from flodl.graph.instrumentation import Watch
from flodl.graph.observed import twin_of
from flodl.graph.planned_module import PlannedModule
from flodl.inspect import plain_profiling
from flodl.inspect.drawing import part_of, stages_at
from flodl.inspect.facts.plain_shapes import PlainCalls, value_text
from flodl.inspect.paths import graph_only, specs_of
from flodl.inspect.plain_pictures import heated
from flodl.observe.duration import short_time
from flodl.visual.constructs import paths_of, word_of
from flodl.visual.part import Heat, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from flodl.ir.graph import GraphSpec

Measure = Literal["backward", "memory"]
Values = dict[int, Any]


def profiled_part(module: nn.Module) -> Part:
    """Return a module with the times of its last forward as heat, nested ones too.

    Args:
        module: a graph or a plain module that is being profiled.

    Raises:
        GraphError: there is no profile.
    """
    spans = plain_profiling.spans(module)
    if not isinstance(module, PlannedModule) and spans:
        return heated(part_of(module), spans)
    if not isinstance(module, PlannedModule) or _times(module) is None:
        message = "there is no profile to draw: enable_profiling(), then call the model"
        raise GraphError(message)
    return _with_times(module, part_of(module))


def measured_part(module: nn.Module, measure: Measure, *inputs: Any, **named: Any) -> Part:
    """Run a copy of a graph once and return it with shapes, and with what was measured as heat.

    Args:
        module: a graph.
        measure: `backward` for the time of the backward pass, `memory` for new storage.
        *inputs: example inputs, as for a call.
        **named: keyword inputs.

    Raises:
        GraphError: the module is no graph, or nothing of its output can be differentiated.
    """
    twin = twin_of(graph_only(module))
    runs = _Runs()
    with torch.random.fork_rng(), torch.enable_grad():
        # The first call of a flow that sees values records it, and notes nothing.
        twin(*inputs, **named)
        _watch(twin, runs)
        output = twin(*inputs, **named)
        if measure == "backward":
            found = _Measured(_backward_seconds(twin, runs, output), short_time)
        else:
            found = _Measured(_new_bytes(twin, runs, inputs, named), bytes_text)
    part = _decorated(twin, part_of(twin), runs, found)
    title = "backward time" if measure == "backward" else "memory of the values"
    total = found.text(sum(heat.amount for heat in part.heat.values()))
    return replace(part, measure=title, total=total)


def shaped_part(module: nn.Module, *inputs: Any, **named: Any) -> Part:
    """Run a copy of a module and return it with the shapes and types of its values.

    In a plain module, values that `plain_shapes` cannot follow have none.

    Args:
        module: a graph or a plain module.
        *inputs: example inputs, as for a call.
        **named: keyword inputs.
    """
    twin = twin_of(module)
    runs = _Runs()
    # Flows look at hooks, so these are there before the first call.
    hooks = [*_note_outputs(_below_plain(twin), runs), *runs.calls.watch(twin)]
    with torch.random.fork_rng(), torch.no_grad():
        twin(*inputs, **named)
        # Only now it is known which modules lie in gates and loops; new hooks need a second recording.
        if stages := list(_in_steps(twin)):
            hooks += _note_outputs(stages, runs)
            twin(*inputs, **named)
        _watch(twin, runs)
        twin(*inputs, **named)
    for hook in hooks:
        hook.remove()
    return _shown(twin, part_of(twin), runs, _Measured({}, str))


# ---- times ---------------------------------------------------------------------------------------


def _times(graph: PlannedModule) -> tuple[GraphSpec, Mapping[int, float]] | None:
    for plans in graph._flodl_plans.values():
        profiler = plans.watch.profiler
        found = profiler.times() if profiler is not None else None
        if found is not None:
            return found
    return None


def _with_times(graph: PlannedModule, part: Part) -> Part:
    found = _times(graph)
    modules = dict(graph.named_modules(remove_duplicate=False))
    inner = {
        path: _with_times(nested, each)
        if isinstance(nested := modules[path], PlannedModule)
        else each
        for path, each in part.inner.items()
    }
    if found is None:
        return replace(part, inner=inner)
    spec, times = found
    heat = {
        node: Heat(amount=seconds, text=short_time(seconds)) for node, seconds in times.items()
    }
    total = short_time(sum(times.values()))
    return replace(part, spec=spec, inner=inner, heat=heat, measure="forward time", total=total)


# ---- one run of a copy ---------------------------------------------------------------------------


@final
class _Runs:
    """The values of the nodes of every graph in a run, by the identity of the graph.

    Attributes:
        values: the values by node.
        specs: what was run.
        outputs: the shapes of the results of modules that lie in plain modules, or in steps such as gates;
            empty where they differ.
        calls: the calls of plain modules, to find the shapes of all values in them.
    """

    def __init__(self) -> None:
        self.values: dict[int, Values] = {}
        self.specs: dict[int, GraphSpec] = {}
        self.outputs: dict[int, str] = {}
        self.calls = PlainCalls()

    def nodes(self) -> Iterator[tuple[tuple[int, int], Any]]:
        """Yield graph and node, and its value, in the order in which the graphs ended."""
        for graph, values in self.values.items():
            for node, value in values.items():
                if self.specs[graph].nodes[node].kind != "input":
                    yield (graph, node), value

    def entered(self, graph: int) -> Iterator[torch.Tensor]:
        """Yield the tensors that came into a graph."""
        for node, value in self.values[graph].items():
            if self.specs[graph].nodes[node].kind == "input":
                yield from _tensors(value)


def _watch(graph: nn.Module, runs: _Runs) -> None:
    for each in graph.modules():
        if isinstance(each, PlannedModule):
            for plans in each._flodl_plans.values():
                plans.watched(Watch(inspect=_note(runs, id(each))))


def _note_outputs(modules: Iterable[nn.Module], runs: _Runs) -> list[RemovableHandle]:
    def note(called: nn.Module, _: Any, output: Any) -> None:
        shape = _shape(output)
        known = runs.outputs.setdefault(id(called), shape)
        runs.outputs[id(called)] = shape if known == shape else ""

    distinct = {id(each): each for each in modules}
    return [each.register_forward_hook(note) for each in distinct.values()]


def _below_plain(module: nn.Module) -> Iterator[nn.Module]:
    for each in module.modules():
        if not isinstance(each, PlannedModule):
            yield from each.children()


def _in_steps(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that lie in a step of a flow, such as the experts of a gate."""
    for graph in module.modules():
        if isinstance(graph, PlannedModule):
            modules = dict(graph.named_modules(remove_duplicate=False))
            for spec in specs_of(graph):
                yield from (modules[path] for path in _paths_in_steps(spec, modules))


def _paths_in_steps(spec: GraphSpec, modules: Mapping[str, nn.Module]) -> Iterator[str]:
    for node in spec.nodes:
        if word_of(node) is not None:
            for path in paths_of(node):
                yield from stages_at(modules, path)


def _note(runs: _Runs, graph: int) -> Callable[[GraphSpec, Values], None]:
    def note(spec: GraphSpec, values: Values) -> None:
        runs.specs[graph] = spec
        runs.values[graph] = values

    return note


@final
@dataclass(frozen=True, slots=True)
class _Measured:
    """Amounts by graph and node, and how to write one."""

    amounts: Mapping[tuple[int, int], float]
    text: Callable[[float], str]


def _shown(module: nn.Module, part: Part, runs: _Runs, measured: _Measured) -> Part:
    """Return a part with shapes and amounts; of a plain one, shapes of the modules that it calls."""
    if isinstance(module, PlannedModule):
        return _decorated(module, part, runs, measured)
    inner = {
        path: _shown(module.get_submodule(path), each, runs, measured)
        for path, each in part.inner.items()
    }
    named = runs.calls.values(module)
    values = {node.index: named[node.name] for node in part.spec.nodes if node.name in named}
    shapes = {node: shape for node, value in values.items() if (shape := _shape(value))}
    for node in part.spec.nodes:
        if node.kind == "module":
            # Its calls by other modules count, too: a shape that differs is none.
            shape = runs.outputs.get(id(module.get_submodule(node.target)), "")
            shapes.pop(node.index, None)
            shapes |= {node.index: shape} if shape else {}
    return replace(part, inner=inner, shapes=shapes, types=_types(values, shapes))


def _decorated(graph: PlannedModule, part: Part, runs: _Runs, measured: _Measured) -> Part:
    """Return a part with shapes and amounts; a nested graph costs what its nodes cost together."""
    modules = dict(graph.named_modules(remove_duplicate=False))
    inner = {
        path: _shown(modules[path], each, runs, measured) for path, each in part.inner.items()
    }
    spec = runs.specs.get(id(graph), part.spec)
    values = runs.values.get(id(graph), {})
    heat: dict[int, Heat] = {}
    for (owner, node), own in measured.amounts.items():
        if owner == id(graph):
            nested_part = inner.get(spec.nodes[node].target)
            below = nested_part.heat.values() if nested_part is not None else ()
            amount = own + sum(each.amount for each in below)
            heat[node] = Heat(amount=amount, text=measured.text(amount))
    shapes = {node: shape for node, value in values.items() if (shape := _shape(value))}
    stages = {
        path: shape
        for path in _paths_in_steps(spec, modules)
        if (shape := runs.outputs.get(id(modules[path]), ""))
    }
    types = _types(values, shapes)
    return replace(
        part, spec=spec, inner=inner, shapes=shapes, types=types, stage_shapes=stages, heat=heat
    )


def _types(values: Mapping[int, Any], shapes: Mapping[int, str]) -> dict[int, str]:
    """Return shape and type of each value, without single tensors whose shape is not the same everywhere."""
    texts = {node: value_text(value) for node, value in values.items()}
    return {
        node: text
        for node, text in texts.items()
        if text and (node in shapes or not isinstance(values[node], torch.Tensor))
    }


def _shape(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return ""
    return "\u00d7".join(map(str, value.shape)) or "scalar"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)


# ---- memory --------------------------------------------------------------------------------------


def _new_bytes(
    graph: PlannedModule, runs: _Runs, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[tuple[int, int], float]:
    """Count the bytes of storage that each node made; views and values that came in count as none."""
    known = {
        _storage(each)
        for each in (*graph.parameters(), *graph.buffers(), *_tensors([inputs, dict(named)]))
    }
    amounts: dict[tuple[int, int], float] = {}
    entered = {graph: set(map(_storage, runs.entered(graph))) for graph in runs.values}
    for place, value in runs.nodes():
        amounts[place] = 0
        for tensor in _tensors(value):
            if _storage(tensor) not in known | entered[place[0]]:
                known.add(_storage(tensor))
                amounts[place] += tensor.untyped_storage().nbytes()
    return amounts


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def bytes_text(count: float) -> str:
    """Return a number of bytes as people read it.

    Example:
        >>> from flodl.inspect.heat import bytes_text
        >>> bytes_text(512), bytes_text(3 << 20)
        ('512 B', '3.0 MiB')
    """
    size, unit = count, "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


# ---- backward ------------------------------------------------------------------------------------


def _backward_seconds(
    graph: PlannedModule, runs: _Runs, output: Any
) -> dict[tuple[int, int], float]:
    """Time the backward pass of each node: from the arrival of its gradient to the next arrival."""
    losses = [each.float().sum() for each in _tensors(output) if each.requires_grad]
    if not losses:
        message = (
            "nothing of the output can be differentiated, so there is no backward pass to time"
        )
        raise GraphError(message)
    arrivals: list[tuple[float, tuple[int, int]]] = []
    for place, value in runs.nodes():
        for tensor in _tensors(value):
            if tensor.requires_grad:
                tensor.register_hook(_arrival(arrivals, place))  # type: ignore[no-untyped-call]
    wanted = [each for each in graph.parameters() if each.requires_grad]
    torch.autograd.grad(losses, wanted, allow_unused=True)
    _synchronize(output)
    ended = time.perf_counter()
    seconds: dict[tuple[int, int], float] = {}
    following = [at for at, _ in arrivals[1:]] + [ended]
    for (at, place), then in zip(arrivals, following, strict=True):
        seconds[place] = seconds.get(place, 0.0) + then - at
    return seconds


def _arrival(
    arrivals: list[tuple[float, tuple[int, int]]], place: tuple[int, int]
) -> Callable[[torch.Tensor], None]:
    def arrived(gradient: torch.Tensor) -> None:
        _synchronize(gradient)
        arrivals.append((time.perf_counter(), place))

    return arrived


def _synchronize(value: Any) -> None:
    """Wait for the device, so that a time on the host is a time of the work."""
    if any(each.is_cuda for each in _tensors(value)):
        torch.cuda.synchronize()
