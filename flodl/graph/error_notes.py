"""The note that an exception gets: which node failed, where it was written, and what came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flodl.graph.compiled_plan import SPEC_KEY, CompiledPlan
from flodl.ir.graph import Attr, Items, Ref, refs

if TYPE_CHECKING:
    from types import TracebackType

    from torch import nn

    from flodl.ir.graph import Arg, GraphSpec, NodeSpec


def explain(error: BaseException, module: nn.Module) -> None:
    """Add the note of the innermost node of `module` that the error came through.

    The node is found from the line of the generated code in the traceback, so that a pass which
    succeeds pays nothing for it.
    """
    found = _generated_frame(error.__traceback__, module)
    if found is None:
        return
    program, line, values = found
    nodes = program.code.nodes_of_line[line - 1]
    if nodes:
        node = program.spec.nodes[nodes[0]]
        shapes = {
            ref: values[variable]
            for (reader, ref), variable in program.code.variables.items()
            if reader == node.index and variable in values
        }
        error.add_note(describe_failure(program.spec, node, shapes, module))


def _generated_frame(
    traceback: TracebackType | None, module: nn.Module
) -> tuple[CompiledPlan, int, dict[str, Any]] | None:
    while traceback is not None:
        frame = traceback.tb_frame
        program = frame.f_globals.get(SPEC_KEY)
        if isinstance(program, CompiledPlan) and frame.f_locals.get("self") is module:
            return program, traceback.tb_lineno, frame.f_locals
        traceback = traceback.tb_next
    return None


def describe_failure(
    spec: GraphSpec, node: NodeSpec, values: dict[int, Any], module: nn.Module
) -> str:
    """Return the text of the note: node, tag, path, branch, call site and the shape of every input."""
    tags = spec.tags_of(node.index)
    parts = [f"in node `{node.name}` ({_operation(node, module)}) of {_owner(spec, module)}"]
    if tags:
        parts.append(f"tag `{'`, `'.join(tags)}`")
    if node.branch is not None:
        parts.append(str(node.branch))
    lines = [", ".join(parts), f"  written at {node.site}"]
    lines += [f"  {line}" for line in _input_lines(spec, node, values, module)]
    return "\n".join(lines)


def _owner(spec: GraphSpec, module: nn.Module) -> str:
    name = type(module).__name__
    return f"{name} `{spec.label}`" if spec.label else name


def _operation(node: NodeSpec, module: nn.Module) -> str:
    if node.kind == "module" or (node.kind == "loop" and node.target):
        try:
            return type(module.get_submodule(node.target)).__name__
        except AttributeError:
            return node.target
    return f"{node.kind} {node.target}"


def _input_lines(
    spec: GraphSpec, node: NodeSpec, values: dict[int, Any], module: nn.Module
) -> list[str]:
    lines: list[str] = []
    for position, arg in enumerate(_flat(node)):
        if isinstance(arg, Ref):
            source = spec.nodes[arg.node]
            text = _shape(values[arg.node]) if arg.node in values else "?"
            branch = f" ({source.branch})" if source.branch is not None else ""
            lines.append(f"input {position} from `{source.name}`: {text}{branch}")
        elif isinstance(arg, Attr):
            lines.append(f"input {position} is self.{arg.path}: {_attribute(module, arg.path)}")
    return lines


def _flat(node: NodeSpec) -> list[Arg]:
    flat: list[Arg] = []
    for arg in (*node.args, *(value for _, value in node.kwargs)):
        if isinstance(arg, Items):
            flat += arg.items
        elif isinstance(arg, (Ref, Attr)):
            flat.append(arg)
        else:
            flat += [Ref(ref) for ref in refs(arg)]
    return flat


def _attribute(module: nn.Module, path: str) -> str:
    container, _, name = path.rpartition(".")
    try:
        owner = module.get_submodule(container)
    except AttributeError:
        return "?"
    return _shape(owner._parameters.get(name, owner._buffers.get(name)))


def _shape(value: Any) -> str:
    """Return `float32[4, 8]` for a tensor, and the nest of those for containers."""
    if isinstance(value, torch.Tensor):
        device = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{device}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(_shape, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shape(item)}" for key, item in value.items()) + "}"
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__}"
