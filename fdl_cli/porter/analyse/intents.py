"""Recognise the blocks of a training script by the library calls that they are made of."""

import ast
from typing import Final

from fdl_cli.porter.analyse.names import collect
from fdl_cli.porter.ir.findings import TrainingFinding
from fdl_cli.porter.parse.reader import SourceFile

_PREFIXES: Final = (
    ("torch.optim.lr_scheduler.", "scheduler"),
    ("torch.optim.", "optimizer"),
    ("torch.utils.data.", "data"),
    ("torchvision.datasets.", "data"),
    ("torch.cuda.amp.", "amp"),
    ("torch.amp.", "amp"),
    ("torch.autocast", "amp"),
    ("torch.nn.parallel.", "distributed"),
    ("torch.nn.DataParallel", "distributed"),
    ("torch.distributed.", "distributed"),
    ("torch.nn.utils.clip_grad", "clipping"),
    ("torch.save", "checkpoint"),
    ("torch.load", "checkpoint"),
    ("torch.manual_seed", "seed"),
    ("torch.no_grad", "evaluation"),
    ("torch.inference_mode", "evaluation"),
)
_METHODS: Final = {"backward": "backward", "zero_grad": "loop", "load_state_dict": "checkpoint"}


def training_blocks(source: SourceFile) -> tuple[TrainingFinding, ...]:
    """Return the training code outside of classes; all of it is left as it is."""
    names = collect(source.tree)
    inside = {
        id(inner)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for inner in ast.walk(node)
    }
    found: dict[tuple[int, str], TrainingFinding] = {}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or id(node) in inside:
            continue
        kind = _kind(names.dotted(node.func), node.func)
        if kind:
            finding = TrainingFinding(kind=kind, line=node.lineno, action="kept")
            found[(node.lineno, kind)] = finding
    return tuple(found[key] for key in sorted(found))


def _kind(dotted: str, callee: ast.expr) -> str:
    for prefix, kind in _PREFIXES:
        if dotted.startswith(prefix):
            return kind
    if dotted.startswith(("torch.nn.", "torch.nn.functional.")) and dotted.endswith(
        ("Loss", "loss")
    ):
        return "loss"
    if isinstance(callee, ast.Attribute):
        return _METHODS.get(callee.attr, "")
    return ""
