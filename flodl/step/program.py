"""A step - forward, loss, backward, clip, update, averages - recorded as one flat list of operations, or two.

The step is run once on copies while every operation is recorded; decisions of Python on the way are
fixed from then on.  Those on values of the batch become a guard.  A step that depends on more is refused.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, fx, nn

from flodl.step.attention import joined, without_weights
from flodl.step.batch_key import read
from flodl.step.binding import Binding, twin
from flodl.step.convolutions import lowered
from flodl.step.parts import gather, update, whole
from flodl.step.refusal import RefusedStepError
from flodl.step.regions.chain import Region
from flodl.step.regions.cutting import cut
from flodl.step.snapshot import attributes_of
from flodl.step.tags import Layout, Tags
from flodl.step.value_guards import NoBypass, Reads, ValueGuard, cut_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flodl.step.parts import Part
    from flodl.step.recipe import Recipe
    from flodl.step.regions.chain import Chain
    from flodl.step.rules import Flags

_MOST_OPERATIONS = 12_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The recorded step, or one part of it.

    Attributes:
        graph: takes the tensors of the binding that the part works on, the numbers, the batch, then
            `constants`; returns the results of the part (see `flodl.step.parts`), then the tagged values.
        metrics: names of the metrics, in order of output.
        tags: how the tagged values, which come last, belong together.
        flags: the properties that the update was specialised for.
        examples: inputs of the right shapes, without values that matter.
        constants: tensors that are neither state nor batch, shared with the model.
        guard: the values that Python has read on the way; the part is right for batches that have them.
        chain: the same as calls of regions, where many of its operations repeat.
    """

    graph: fx.GraphModule
    metrics: tuple[str, ...]
    tags: Layout
    flags: Flags
    examples: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    guard: ValueGuard
    chain: Chain | None

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions to compile: those of the chain, else the whole."""
        if self.chain is not None:
            return self.chain.compiled
        return (Region(graph=self.graph, examples=self.examples),)

    @property
    def operations(self) -> int:
        """Number of operations to compile."""
        return sum(len(each.graph.graph.nodes) for each in self.regions)


def record_all(
    recipe: Recipe, layout: tuple[tuple[int, int], ...], batch: Any
) -> tuple[Program, ...]:
    """Record the parts of a step: one, or gathering and updating.

    Raises:
        RefusedStepError: as in `record`.
    """
    parts: tuple[Part, ...] = ("gather", "update") if recipe.in_parts else ("whole",)
    return tuple(record(recipe, layout, batch, part) for part in parts)


def record(
    recipe: Recipe, layout: tuple[tuple[int, int], ...], batch: Any, part: Part = "whole"
) -> Program:
    """Record the step of a recipe on a batch, without touching its model, optimizer or random numbers.

    Raises:
        RefusedStepError: the step cannot be recorded, or would not mean the same when it is replayed.
    """
    python, devices = random.getstate(), _devices(recipe)
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        live = Tags(recipe.model)
        copied = twin(recipe)
        if without_weights(copied.model):
            try:
                program = _record(Binding(copied, layout), live, batch, part)
            except RefusedStepError:  # they are read
                program = _record(Binding(twin(recipe), layout), live, batch, part)
        else:
            program = _record(Binding(copied, layout), live, batch, part)
        if _has_opaque_recurrence(program):
            with torch.backends.mkldnn.flags(enabled=False):
                program = _record(Binding(twin(recipe), layout), live, batch, part)
    if program.operations > _MOST_OPERATIONS:
        raise RefusedStepError(
            f"the step has {program.operations} operations: compiling it would take too long"
        )
    if random.getstate() != python:
        random.setstate(python)
        raise RefusedStepError("the step draws from Python's random numbers")
    _refuse_outside_weights(recipe, program)
    return program


def _has_opaque_recurrence(program: Program) -> bool:
    """Return True if a kernel is used that cannot be called from a compiled library (torch 2.13)."""
    kernel = "mkldnn_rnn_layer_backward"
    return any(kernel in str(node.target) for node in program.graph.graph.nodes)


def _devices(recipe: Recipe) -> list[int]:
    device = recipe.device()
    return [device.index or 0] if device.type == "cuda" else []


@final
class _Recording:
    """One part of a step on copies, as a function of a flat list of tensors."""

    def __init__(self, binding: Binding, live: Tags, batch: Any, part: Part) -> None:
        self.binding = binding
        self.batch = batch
        self.part = part
        self.names: list[str] = []
        self.reads = Reads()
        self.tags = Tags(binding.recipe.model)
        self.tags.follow(live)
        self.layout = Layout.of([])
        values, flags = binding.numbers()
        self.flags: Flags = () if part == "gather" else flags
        if part == "gather":
            values = [1.0]
        elif part == "update":
            values = [*values, 1.0]
        self.numbers = torch.tensor(values, dtype=torch.float64, device=binding.recipe.device())
        self.held = [] if part == "whole" else [torch.zeros_like(t) for t in binding.trained]

    def inputs(self) -> list[Tensor]:
        """Return the inputs of the part, in the order of its arguments."""
        bound = self.binding.used if self.part == "gather" else self.binding.flat
        tensors = [] if self.part == "update" else read(self.batch)[0]
        return [*bound, *self.held, self.numbers, *tensors]

    def places(self) -> slice:
        """Return the places of the batch among the inputs."""
        count = 0 if self.part == "update" else len(read(self.batch)[0])
        end = len(self.inputs())
        return slice(end - count, end)

    def __call__(self, flat: Sequence[Tensor]) -> list[Tensor]:
        """Run the part, and return its results, then what it has read; the tensors are those of `inputs`."""
        del flat
        with NoBypass(self.reads), self.reads:
            outputs = self._run()
        return [*outputs, *self.reads.tensors]

    def _run(self) -> list[Tensor]:
        binding, numbers = self.binding, self.numbers
        if self.part == "update":
            return update(binding, self.held, numbers, self.flags)
        self.tags.forget()
        if self.part == "gather":
            outputs = gather(binding, self.held, numbers, self.batch, self.names)
        else:
            outputs = whole(binding, numbers, self.batch, self.flags, self.names)
        kept, self.layout = self.tags.gather()
        return [*outputs, *kept]

    def settle(self) -> None:
        """Run the forward once: the first one of some modules makes plans and caches for later ones."""
        if self.part != "update":
            with torch.no_grad():
                self.binding.recipe.train_fn(self.binding.recipe.model, self.batch)


def _record(binding: Binding, live: Tags, batch: Any, part: Part) -> Program:
    model = binding.recipe.model
    recording = _Recording(binding, live, batch, part)
    inputs = recording.inputs()
    before: dict[str, Any] = {}
    try:
        recording.settle()
        before = attributes_of(model)
        graph = _traced(recording, inputs)
    except RefusedStepError:
        raise
    except Exception as error:
        raise RefusedStepError(_first_line(error)) from error
    after = attributes_of(model)
    changed = sorted(
        before.keys() ^ after.keys() | {n for n, each in after.items() if before.get(n) != each}
    )
    if changed:
        raise RefusedStepError(f"the forward changes `{changed[0]}` of the model")
    constants = _lift_constants(graph)
    guard = cut_out(graph, recording.reads, recording.places(), constants)
    if not guard.holds(read(batch)[0]):
        raise RefusedStepError("what the step reads of a batch is not the same twice")
    _drop_detached(graph)
    examples = tuple(each.detach() for each in (*inputs, *constants))
    return Program(
        graph=graph,
        metrics=tuple(recording.names),
        tags=recording.layout,
        flags=recording.flags,
        examples=examples,
        constants=constants,
        guard=guard,
        chain=cut(graph.graph, examples),
    )


def _traced(run: Callable[..., list[Tensor]], inputs: list[Tensor]) -> fx.GraphModule:
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    # It notes the shape of each value; without a mode for all of them it makes one for each: half the time.
    mode = FakeTensorMode(allow_fallback_kernels=True)
    with tracing(TracingContext(mode)):
        return make_fx(
            run,
            decomposition_table={
                **lowered(inputs[0].device),
                torch.ops.aten.cat.default: joined,
            },
            tracing_mode="real",
            _allow_non_fake_inputs=True,
        )(inputs)


def _first_line(error: Exception) -> str:
    text = str(error)
    if "_local_scalar_dense" in text:
        return "the step reads the value of a tensor (.item(), if, int())"
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


def _lift_constants(graph: fx.GraphModule) -> tuple[Tensor, ...]:
    """Turn tensors that the graph holds into inputs, so that it can be compiled elsewhere."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    lifted: dict[str, fx.Node] = {}
    constants: list[Tensor] = []
    for node in list(graph.graph.nodes):
        if node.op != "get_attr":
            continue
        if node.target not in lifted:
            with graph.graph.inserting_after(placeholders[-1]):
                placeholder = graph.graph.placeholder(f"constant_{len(lifted)}")
            placeholders.append(placeholder)
            lifted[node.target] = placeholder
            constants.append(getattr(graph, node.target))
        node.replace_all_uses_with(lifted[node.target])
        graph.graph.erase_node(node)
    for name in lifted:
        delattr(graph, name)
    # It was recorded with one list as its argument; from here on each input is separate.
    graph.graph.set_codegen(fx.graph.CodeGen())
    graph.recompile()
    return tuple(constants)


def _drop_detached(graph: fx.GraphModule) -> None:
    """Leave out what only autograd needed: a fifth of an unrolled recurrence."""
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.detach.default and node.args[0].op != "placeholder":
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()


def _refuse_outside_weights(recipe: Recipe, program: Program) -> None:
    addresses = {each.untyped_storage().data_ptr(): name for name, each in _named(recipe.model)}
    for constant in program.constants:
        name = addresses.get(constant.untyped_storage().data_ptr())
        if name is not None:
            raise RefusedStepError(
                f"train_fn uses `{name}` of the model, but not through its argument"
            )
        if constant.requires_grad:
            raise RefusedStepError("train_fn uses weights that are not the model's")


def _named(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]
