"""Recognition of the blocks of a training script by their library calls."""

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fdl_cli.porter.ir.findings import TrainingFinding
from fdl_cli.porter.knowledge.training_names import METHODS, PREFIXES
from fdl_cli.porter.lower.names import Names, collect
from fdl_cli.porter.parse.reader import SourceFile

_MODULE_ROOTS: Final = ("torch.nn.", "flodl.")


def training_blocks(
    source: SourceFile,
    loops: tuple[TrainingFinding, ...] = (),
    taken: Mapping[int, str] = MappingProxyType({}),
) -> tuple[TrainingFinding, ...]:
    """Return the training code outside of models.

    `loops` are known already; `taken` says of the lines that moved with them what became of them.
    """
    names = collect(source.tree)
    inside = {
        id(inner)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and _is_model(names, node)
        for inner in ast.walk(node)
    }
    found: dict[tuple[int, str], TrainingFinding] = {
        (item.line, item.kind): item for item in loops
    }
    for node in ast.walk(source.tree):
        if id(node) in inside:
            continue
        kind, name = _block(names, node)
        line = vars(node).get("lineno", 0)
        if kind and (line, kind) not in found:
            action = taken.get(line, "kept")
            found[(line, kind)] = TrainingFinding(kind=kind, line=line, action=action, name=name)
    return tuple(found[key] for key in sorted(found))


def _is_model(names: Names, node: ast.ClassDef) -> bool:
    """Return True if a class is a model; the methods of a trainer class are training code."""
    if any(
        isinstance(item, ast.FunctionDef) and item.name in {"forward", "flow"}
        for item in node.body
    ):
        return True
    return any(names.dotted(base).startswith(_MODULE_ROOTS) for base in node.bases)


def _block(names: Names, node: ast.AST) -> tuple[str, str]:
    if isinstance(node, ast.Call):
        return _call(names, node)
    if isinstance(node, ast.If) and _counts_steps(node):
        return "accumulation", ast.unparse(node.test)
    return "", ""


def _call(names: Names, node: ast.Call) -> tuple[str, str]:
    dotted = names.dotted(node.func)
    for prefix, kind in PREFIXES:
        if dotted.startswith(prefix):
            return kind, dotted
    if dotted.startswith(("torch.nn.", "torch.nn.functional.")) and dotted.endswith(
        ("Loss", "loss", "cross_entropy", "_entropy_with_logits")
    ):
        return "loss", dotted
    if isinstance(node.func, ast.Attribute):
        kind = METHODS.get(node.func.attr, "")
        return _method(kind, node.func), f".{node.func.attr}()"
    return "", ""


def _method(kind: str, callee: ast.Attribute) -> str:
    """Return the kind of a method call, with a look at its receiver."""
    receiver = ast.unparse(callee.value).lower()
    if callee.attr == "step":
        if "sched" in receiver:
            return "scheduler"
        return "optimizer" if "opt" in receiver else ""
    if callee.attr in {"to", "cuda", "cpu"}:
        return "device"
    return kind


def _counts_steps(node: ast.If) -> bool:
    """Return True if an `if` lets the optimizer step in some turns only."""
    modulo = any(isinstance(item, ast.Mod) for item in ast.walk(node.test))
    return modulo and any(
        isinstance(item, ast.Call)
        and isinstance(item.func, ast.Attribute)
        and item.func.attr == "step"
        and "opt" in ast.unparse(item.func.value).lower()
        for stmt in node.body
        for item in ast.walk(stmt)
    )
