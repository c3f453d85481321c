"""A whole step - forward, loss, backward, clip, update, averages - recorded as one flat list of operations.

The step is run once on copies while every operation is written down; what Python decided on the way is
fixed from then on.  A step that depends on more than its tensors is refused.
"""

from __future__ import annotations

import random
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, fx, nn

from flodl.step.attention import without_weights
from flodl.step.binding import Binding, twin
from flodl.step.reading import read
from flodl.step.recipe import loss_and_metrics
from flodl.step.refusal import RefusedStepError
from flodl.step.snapshot import attributes_of
from flodl.step.tags import Layout, Tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.step.recipe import Recipe
    from flodl.step.rules import Flags

_MOST_OPERATIONS = 12_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The recorded step.

    Attributes:
        graph: takes the tensors of the binding, the numbers, the batch, then `constants`;
            returns the loss, the metrics, and the gradient norm if it clips.
        metrics: names of the metrics, in order of output.
        tags: how the tagged values, which come last, belong together.
        flags: what the update was specialised for.
        examples: inputs of the right shapes, without values that matter.
        constants: tensors that are neither state nor batch, shared with the model.
    """

    graph: fx.GraphModule
    metrics: tuple[str, ...]
    tags: Layout
    flags: Flags
    examples: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]


def record(recipe: Recipe, layout: tuple[tuple[int, int], ...], batch: Any) -> Program:
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
                program = _record(copied, live, Binding(copied, layout), batch)
            except RefusedStepError:  # somebody reads them
                copied = twin(recipe)
                program = _record(copied, live, Binding(copied, layout), batch)
        else:
            program = _record(copied, live, Binding(copied, layout), batch)
        if _has_opaque_recurrence(program):
            with torch.backends.mkldnn.flags(enabled=False):
                copied = twin(recipe)
                program = _record(copied, live, Binding(copied, layout), batch)
    count = len(program.graph.graph.nodes)
    if count > _MOST_OPERATIONS:
        raise RefusedStepError(
            f"the step has {count} operations: compiling it would take too long"
        )
    if random.getstate() != python:
        random.setstate(python)
        raise RefusedStepError("the step draws from Python's random numbers")
    _refuse_outside_weights(recipe, program)
    return program


def _has_opaque_recurrence(program: Program) -> bool:
    """Say whether a kernel is used that cannot be called from a compiled library (torch 2.13)."""
    kernel = "mkldnn_rnn_layer_backward"
    return any(kernel in str(node.target) for node in program.graph.graph.nodes)


def _devices(recipe: Recipe) -> list[int]:
    device = recipe.device()
    return [device.index or 0] if device.type == "cuda" else []


def _record(recipe: Recipe, live: Tags, binding: Binding, batch: Any) -> Program:
    from torch.fx.experimental.proxy_tensor import make_fx

    values, flags = binding.numbers()
    numbers = torch.tensor(values, dtype=torch.float64, device=recipe.device())
    tensors, _ = read(batch)
    inputs = [*binding.flat, numbers, *tensors]
    names: list[str] = []
    layouts: list[Layout] = []
    tags = Tags(recipe.model)
    tags.follow(live)

    def run(flat: Sequence[Tensor]) -> list[Tensor]:
        tags.forget()
        outputs = _step(recipe, binding, flat[len(binding.flat)], batch, flags, names)
        kept, layout = tags.gather()
        layouts.append(layout)
        return [*outputs, *kept]

    before: dict[str, Any] = {}
    try:
        # The first forward of some modules makes things (plans, caches) that later ones only use.
        with torch.no_grad():
            recipe.train_fn(recipe.model, batch)
        before = attributes_of(recipe.model)
        graph = make_fx(run, tracing_mode="real", _allow_non_fake_inputs=True)(inputs)
    except RefusedStepError:
        raise
    except Exception as error:
        raise RefusedStepError(_first_line(error)) from error
    changed = sorted(before.keys() ^ attributes_of(recipe.model).keys() | {
        name for name, each in attributes_of(recipe.model).items() if before.get(name) != each
    })  # fmt: skip
    if changed:
        raise RefusedStepError(f"the forward changes `{changed[0]}` of the model")
    examples = tuple(each.detach() for each in inputs)
    constants = _lift_constants(graph)
    return Program(
        graph=graph,
        metrics=tuple(names),
        tags=layouts[0],
        flags=flags,
        examples=(*examples, *(each.detach() for each in constants)),
        constants=constants,
    )


def _first_line(error: Exception) -> str:
    text = str(error)
    if "_local_scalar_dense" in text:
        return "the step reads the value of a tensor (.item(), if, int())"
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


def _step(
    recipe: Recipe,
    binding: Binding,
    numbers: Tensor,
    batch: Any,
    flags: Flags,
    names: list[str],
) -> list[Tensor]:
    autocast = recipe.autocast()
    with autocast or nullcontext():
        loss, metrics = loss_and_metrics(recipe.train_fn(recipe.model, batch))
    gradients = _gradients(loss, binding)
    with torch.no_grad():
        outputs = [loss.detach(), *(each.detach() for each in metrics.values())]
        names.extend(metrics)
        if recipe.clip_norm is not None:
            norm, gradients = _clipped(gradients, recipe.clip_norm)
            outputs.append(norm)
        _update(binding, gradients, numbers, flags)
        if recipe.ema is not None:
            averages, parameters = recipe.ema.pairs()
            for average, parameter in zip(averages, parameters, strict=True):
                average.lerp_(parameter, 1.0 - recipe.ema.decay)
    return outputs


def _gradients(loss: Tensor, binding: Binding) -> tuple[Tensor, ...]:
    found: Sequence[Tensor | None] = torch.autograd.grad(loss, binding.trained, allow_unused=True)
    given = tuple(each for each in found if each is not None)
    if len(given) < len(found):
        missing = next(t for t, each in zip(binding.trained, found, strict=True) if each is None)
        raise RefusedStepError(
            f"the loss does not depend on `{binding.names[id(missing)]}` of the model that "
            "train_fn is given"
        )
    return given


def _clipped(gradients: Sequence[Tensor], limit: float) -> tuple[Tensor, tuple[Tensor, ...]]:
    norms = torch.stack([torch.linalg.vector_norm(each) for each in gradients])
    total = torch.linalg.vector_norm(norms)
    factor = torch.clamp(limit / (total + 1e-6), max=1.0)
    return total, tuple(each * factor for each in gradients)


def _update(binding: Binding, gradients: Sequence[Tensor], numbers: Tensor, flags: Flags) -> None:
    each_number = numbers.unbind()
    start = 0
    groups = binding.recipe.optimizer.param_groups
    for cohort, assumed in zip(binding.cohorts, flags, strict=True):
        count = len(binding.rule.host(groups[cohort.group], cohort.clock)[1])
        mine = each_number[start : start + count]
        start += count
        for member in cohort.members:
            binding.rule.update(
                binding.trained[member],
                gradients[member],
                binding.states[member],
                mine,
                assumed,  # type: ignore[arg-type]
            )


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
    # It was recorded with one list as its argument; from here on each input stands by itself.
    graph.graph.set_codegen(fx.graph.CodeGen())
    graph.recompile()
    return tuple(constants)


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
