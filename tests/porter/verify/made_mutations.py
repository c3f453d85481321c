"""Mutations made by rule: every class of some real models is ported, and each of its steps changed."""

from __future__ import annotations

import ast
import copy
import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.porter.project import Project

CHAINED = frozenset({"through", "also"})
OTHER_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.MatMult: ast.Mult,
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RealClass:
    """A class of an installed package, and how it is made and called."""

    package: str
    module: str
    name: str
    examples: tuple[str, ...]

    @property
    def file(self) -> Path:
        """The file that defines the class."""
        spec = importlib.util.find_spec(self.package)
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).parent / self.module


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMutation:
    """A class with one change in its port, as the text of the whole file."""

    name: str
    text: str


MOST_PER_CLASS = 5
# Changes that change nothing: two channels in two groups are shuffled to themselves, and a mask
# is put together only for a block that attends to its own input too.
SAME_MEANING = frozenset({
    "models/shufflenet.py-ShuffleUnit-drop-step-6",
    *(f"perceiver_pytorch.py-Attention-number-{place}" for place in range(20)),
})  # fmt: skip
IMAGE = "torch.randn(2, 4, 6, 6)"


def _cv(module: str, name: str, arguments: str, inputs: str = IMAGE, more: str = "") -> RealClass:
    examples = [f"{name}({arguments}): {inputs}", *([more] if more else [])]
    return RealClass(
        package="pytorchcv", module=f"models/{module}.py", name=name, examples=tuple(examples)
    )


def _perceiver(name: str, arguments: str, *inputs: str) -> RealClass:
    return RealClass(
        package="perceiver_pytorch", module="perceiver_pytorch.py", name=name,
        examples=tuple(f"{name}({arguments}): {text}" for text in inputs),
    )  # fmt: skip


CLASSES: tuple[RealClass, ...] = (
    _cv("resnet", "ResBlock", "4, 4, 1"),
    _cv("resnet", "ResBottleneck", "4, 8, 2"),
    _cv("resnet", "ResUnit", "4, 8, 2, bottleneck=False"),
    _cv("resnet", "ResInitBlock", "4, 4"),
    _cv("preresnet", "PreResBlock", "4, 4, 1"),
    _cv("preresnet", "PreResBottleneck", "4, 8, 2, False"),
    _cv("preresnet", "PreResUnit", "4, 8, 2, bottleneck=False"),
    _cv("seresnet", "SEResUnit", "4, 16, 1, bottleneck=False, conv1_stride=False"),
    _cv("densenet", "DenseUnit", "4, 8, 0.2"),
    _cv("densenet", "TransitionBlock", "4, 8"),
    _cv("squeezenet", "FireUnit", "8, 2, 4, 4, True", "torch.randn(2, 8, 6, 6)"),
    _cv("squeezenet", "FireConv", "4, 4, 3, 1"),
    _cv("shufflenet", "ShuffleUnit", "4, 8, groups=2, downsample=True, ignore_group=False",
        more="ShuffleUnit(8, 8, groups=2, downsample=False, ignore_group=False): torch.randn(2, 8, 6, 6)"),
    _cv("shufflenetv2", "ShuffleUnit", "4, 8, downsample=True, use_se=False, use_residual=False",
        more="ShuffleUnit(32, 32, downsample=False, use_se=True, use_residual=True): "
             "torch.randn(2, 32, 6, 6)"),
    _cv("resnext", "ResNeXtBottleneck", "4, 8, 1, cardinality=2, bottleneck_width=32"),
    _cv("resnext", "ResNeXtUnit", "4, 8, 2, cardinality=2, bottleneck_width=32"),
    _cv("common/att", "SEBlock", "4, reduction=2",
        more="SEBlock(4, reduction=2, use_conv=False): torch.randn(2, 4, 6, 6)"),
    _cv("common/norm", "IBN", "4", more="IBN(4, inst_first=False): torch.randn(2, 4, 6, 6)"),
    _cv("common/activ", "HSwish", ""),
    _cv("common/activ", "HSigmoid", ""),
    _cv("common/activ", "Swish", ""),
    _cv("common/tutti", "ChannelShuffle", "4, 2"),
    _cv("common/tutti", "ChannelShuffle2", "4, 2"),
    _cv("common/tutti", "DucBlock", "4, 4, 2"),
    _cv("common/tutti", "NormActivation", "4"),
    _cv("common/tutti", "DenseBlock", "4, 6", "torch.randn(3, 4)"),
    _cv("common/conv", "ConvBlock", "4, 4, 3, 1, (1, 0, 1, 1)"),
    _cv("common/conv", "DwsConvBlock", "4, 6, 3, 1, 1"),
    _cv("common/conv", "PreConvBlock", "4, 6, 3, 1, 1, return_preact=True",
        more="PreConvBlock(4, 6, 3, 1, 1): torch.randn(2, 4, 6, 6)"),
    _cv("common/conv", "AsymConvBlock", "4, 3, 1"),
    _cv("common/conv", "DeconvBlock", "4, 6, 3, 2, 1, ext_padding=(1, 0, 1, 1)"),
    _cv("nin_cifar", "NINConv", "4, 4, 1"),
    _perceiver("GEGLU", "", "torch.randn(2, 3, 8)"),
    _perceiver("FeedForward", "8, 2, 0.1", "torch.randn(2, 3, 8)"),
    _perceiver("Attention", "8, 6, 2, 4, 0.1", "torch.randn(2, 3, 8), torch.randn(2, 5, 6)",
               "torch.randn(2, 3, 8), torch.randn(2, 5, 6), torch.tensor([[1, 0, 1, 0, 1]] * 2) > 0"),
    _perceiver("PreNorm", "8, torch.nn.Linear(8, 3), context_dim=None", "torch.randn(2, 3, 8)"),
)  # fmt: skip


def ported_text(item: RealClass) -> str:
    """Return the port of the file of a class."""
    text, statuses = _ported(item.file)
    assert statuses[item.name] == "graph", item
    return text


@functools.cache
def _ported(path: Path) -> tuple[str, dict[str, str]]:
    made = Project({path: path.read_bytes()}).draft(path)
    return made.text, {plan.name: plan.status for plan in made.plan.classes}


@functools.cache
def chosen(item: RealClass) -> tuple[MadeMutation, ...]:
    """Return some mutations of a class, spread over all of them, so that every kind has its turn."""
    found = [m for m in mutations_of(item, ported_text(item)) if m.name not in SAME_MEANING]
    wanted = min(MOST_PER_CLASS, len(found))
    places = {number * len(found) // wanted for number in range(wanted)} | {len(found) - 1}
    return tuple(found[place] for place in sorted(places))


def mutations_of(item: RealClass, text: str) -> Iterator[MadeMutation]:
    """Yield every mutation of a class; the order is that of its text."""
    tree = ast.parse(text)

    for kind, change in RULES:
        places = len(list(_places(tree, item.name, change)))
        for place in range(places):
            mutated = copy.deepcopy(tree)
            node = list(_places(mutated, item.name, change))[place]
            change(node)
            made = ast.unparse(ast.fix_missing_locations(mutated))
            yield MadeMutation(name=f"{item.module}-{item.name}-{kind}-{place}", text=made)


Change = Callable[[ast.AST], bool]


def _places(tree: ast.Module, name: str, change: Change) -> Iterator[ast.AST]:
    owner = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    flow = next(n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "flow")
    for node in ast.walk(flow):
        if change(copy.deepcopy(node)):
            yield node


def _become(node: ast.AST, other: ast.AST) -> None:
    # The parent keeps the object: it takes the class and the fields of the other one.
    fields = vars(other)
    node.__class__ = other.__class__
    node.__dict__.clear()
    node.__dict__.update(fields)


def drop_step(node: ast.AST) -> bool:
    """`x.through(f)` becomes `x`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=word, value=value)) if word in CHAINED:
            _become(node, value)
            return True
    return False


def repeat_step(node: ast.AST) -> bool:
    """`x.through(f)` becomes `x.through(f) * 1.0625`: a number of the result is a little off."""
    match node:
        case ast.Call(func=ast.Attribute(attr=word)) if word in CHAINED:
            whole = copy.copy(node)
            _become(node, ast.BinOp(left=whole, op=ast.Mult(), right=ast.Constant(value=1.0625)))
            return True
    return False


def lose_residual(node: ast.AST) -> bool:
    """`x.also(f)` becomes `x.through(f)`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="also") as callee):
            callee.attr = "through"
            return True
    return False


def other_operator(node: ast.AST) -> bool:
    """`+` becomes `-`, and so on."""
    if isinstance(node, ast.BinOp) and type(node.op) in OTHER_OPERATOR:
        node.op = OTHER_OPERATOR[type(node.op)]()
        return True
    return False


def detached(node: ast.AST) -> bool:
    """The result of a step is cut off from its gradients."""
    match node:
        case ast.Call(func=ast.Attribute(attr=word)) if word in CHAINED:
            whole = copy.copy(node)
            callee = ast.Attribute(value=whole, attr="detach", ctx=ast.Load())
            _become(node, ast.Call(func=callee, args=[], keywords=[]))
            return True
    return False


def shifted_number(node: ast.AST) -> bool:
    """A whole number becomes the next one."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        return True
    return False


def noisy(node: ast.AST) -> bool:
    """The result draws random numbers that it does not use."""
    if isinstance(node, ast.Return) and node.value is not None:
        call = ast.parse("(torch.rand(1), None)[1]", mode="eval").body
        whole = ast.Tuple(elts=[call, node.value], ctx=ast.Load())
        node.value = ast.Subscript(value=whole, slice=ast.Constant(value=1), ctx=ast.Load())
        return True
    return False


def inverted_test(node: ast.AST) -> bool:
    """`if a` becomes `if not a`."""
    if isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        return True
    return False


def in_a_list(node: ast.AST) -> bool:
    """The result comes in a list."""
    if isinstance(node, ast.Return) and node.value is not None:
        node.value = ast.List(elts=[node.value], ctx=ast.Load())
        return True
    return False


RULES: tuple[tuple[str, Change], ...] = (
    ("drop-step", drop_step),
    ("scaled", repeat_step),
    ("lose-residual", lose_residual),
    ("operator", other_operator),
    ("detached", detached),
    ("number", shifted_number),
    ("draws", noisy),
    ("test", inverted_test),
    ("list", in_a_list),
)
