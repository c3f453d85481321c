"""A description as text, one line per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.ir.graph import (
    Arg,
    Attr,
    Build,
    Items,
    Literally,
    Named,
    Pairs,
    Ref,
    Slice,
    Submodule,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.ir.graph import GraphSpec, NodeSpec


def flow_text(spec: GraphSpec, title: str, kinds: Mapping[str, str]) -> str:
    """Return the flow as text: inputs, one line per node with its tags, and the output.

    Args:
        spec: the description.
        title: the class name of the graph.
        kinds: class names of the submodules, by path.
    """
    inputs = ", ".join(each.name for each in spec.inputs)
    label = f" `{spec.label}`" if spec.label else ""
    lines = [f"{title}{label}({inputs})"]
    lines += [f"  {text}" for _, text in step_texts(spec, kinds)]
    lines.append(f"  return {argument_text(spec, spec.output)}")
    return "\n".join(lines)


def step_texts(spec: GraphSpec, kinds: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the number of each step and its line, without the inputs.

    Args:
        spec: the description.
        kinds: class names of the submodules, by path.
    """
    return [(node.index, _line(spec, node, kinds)) for node in spec.nodes if node.kind != "input"]


def _line(spec: GraphSpec, node: NodeSpec, kinds: Mapping[str, str]) -> str:
    args = [argument_text(spec, arg) for arg in node.args]
    args += [f"{key}={argument_text(spec, arg)}" for key, arg in node.kwargs]
    tags = spec.tags_of(node.index)
    note = f"  # tag {', '.join(tags)}" if tags else ""
    branch = f"  [{node.branch.k}/{node.branch.n}]" if node.branch is not None else ""
    return f"{node.name} = {operation(node, kinds)}({', '.join(args)}){branch}{note}"


def operation(node: NodeSpec, kinds: Mapping[str, str]) -> str:
    """Return the operation of a node in a word: a module's class, a function's name, an operator."""
    if node.kind in ("module", "loop"):
        kind = kinds.get(node.target, node.target or "self")
        turns = node.args[1] if node.kind == "loop" else None
        return f"{kind} x{turns.value}" if isinstance(turns, Literally) else kind
    if node.kind == "attribute":
        return f".{node.target}"
    if node.kind == "setattr":
        return f"set .{node.target}"
    if node.kind in ("unpack", "exit"):
        return node.kind
    if node.kind == "enter":
        return f"with {node.target}".strip()
    return node.target or node.kind


def argument_text(spec: GraphSpec, arg: Arg) -> str:
    """Return an argument as text, nodes by their names."""
    match arg:
        case Ref(node):
            return spec.nodes[node].name
        case Attr(path) | Submodule(path):
            return f"self.{path}".removesuffix(".")
        case Literally(value):
            return repr(value)
        case Named(key):
            return key
        case Items(kind, items):
            inner = ", ".join(argument_text(spec, item) for item in items)
            return f"[{inner}]" if kind == "list" else f"({inner})"
        case Pairs(keys, values):
            texts = (
                f"{argument_text(spec, key)}: {argument_text(spec, value)}"
                for key, value in zip(keys, values, strict=True)
            )
            return "{" + ", ".join(texts) + "}"
        case Slice(start, stop, step):
            return ":".join(
                "" if part == Literally(None) else argument_text(spec, part)
                for part in (start, stop, step)
            ).removesuffix(":")
        case Build(key, fields):
            return f"{key}({', '.join(f'{n}={argument_text(spec, v)}' for n, v in fields)})"
