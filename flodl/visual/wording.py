"""The width of text, the form of numbers, and the role of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.ir.graph import Items, Literally, Ref, Slice, Submodule
from flodl.ir.pretty import argument_text, operation
from flodl.visual.constructs import label_of, submodules, word_of

if TYPE_CHECKING:
    from flodl.ir.graph import Arg, GraphSpec, NodeSpec
    from flodl.visual.part import Part
    from flodl.visual.scene import Role

LONGEST = 34
# Widths of Helvetica in units of the font size, rounded up, so that other sans-serif faces fit too.
_NARROW, _WIDE = frozenset("iljI.,:;|!'()[]{}`/ tfr-"), frozenset("mwMW@%")
_SIGNS = {
    "add": "+", "i_add": "+", "sub": "\u2212", "i_sub": "\u2212", "mul": "\u00d7", "i_mul": "\u00d7",
    "truediv": "\u00f7", "i_truediv": "\u00f7", "matmul": "@", "i_matmul": "@", "pow": "^",
    "neg": "\u2212", "floordiv": "//", "mod": "%", "eq": "==", "ne": "\u2260", "lt": "<", "le": "\u2264",
    "gt": ">", "ge": "\u2265", "and_": "&", "or_": "|", "xor": "^", "invert": "~",
}  # fmt: skip
_ACTIVATIONS = frozenset(
    {"relu", "relu6", "sigmoid", "tanh", "gelu", "silu", "elu", "selu", "celu", "mish", "softplus",
     "leakyrelu", "leaky_relu", "prelu", "hardswish", "hardsigmoid", "hardtanh", "softmax",
     "log_softmax", "logsoftmax", "swish", "softsign", "glu"}
)  # fmt: skip
# Of a name one of these is a part of; the first one counts.
_PARTS: tuple[tuple[str, Role], ...] = (("norm", "norm"), ("dropout", "dropout"), ("pool", "pool"))
# Operations that move values without computing any.
_SHAPES = frozenset(
    {"flatten", "unflatten", "reshape", "reshape_as", "view", "view_as", "transpose", "permute", "t",
     "swapaxes", "movedim", "squeeze", "unsqueeze", "expand", "expand_as", "repeat", "tile", "cat",
     "concat", "stack", "hstack", "vstack", "chunk", "split", "unbind", "narrow", "roll", "flip", "pad",
     "contiguous", "fold", "unfold", "pixelshuffle", "pixel_shuffle", "zeropad2d", "broadcast_to"}
)  # fmt: skip
# Functions that graphs call to keep values, by the function's name.
_STATES = ("read_state_", "write_state_")


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in a sans-serif font, generously."""
    total = 0.0
    for char in text:
        if char in _NARROW:
            total += 0.36
        elif char in _WIDE:
            total += 0.92
        elif char.isupper() or not char.isascii():
            total += 0.74
        else:
            total += 0.58
    return total * size


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text with its middle left out if it is too long to draw."""
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}\u2026{text[-(longest - head - 1) :]}"


def count_text(number: int) -> str:
    """Return a number of parameters as people say it.

    Example:
        >>> from flodl.visual.wording import count_text
        >>> count_text(1234567), count_text(2048), count_text(12)
        ('1.2M', '2.0K', '12')
    """
    for limit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= limit:
            return f"{number / limit:.1f}{letter}"
    return str(number)


def role_of(part: Part, node: NodeSpec) -> Role:
    """Return the role of a step, from its kind and the name of what it does."""
    if node.kind == "input":
        return "input"
    if node.kind in ("merge", "item"):
        return node.kind
    if word := word_of(node):
        return "choice" if word in ("gate", "switch") else "loop"
    if node.kind == "module" and node.target in part.inner:
        return "graph"
    if node.kind == "operator":
        return "operator" if node.target in _SIGNS else "operation"
    if node.kind == "function" and node.target in _STATES:
        return "state"
    if node.target.startswith("lambda") or node.target in part.lambdas:
        return "operation"
    name = _operation(part, node).rpartition(".")[2].strip("_").lower()
    is_layer = node.kind == "module" or bool(_called(node))
    return _role_by_name(name) or ("layer" if is_layer else "operation")


def _role_by_name(name: str) -> Role | None:
    """Return the role of an operation with such a name, `None` if the name says nothing."""
    if name in _ACTIVATIONS:
        return "activation"
    if name in _SHAPES:
        return "shape"
    return next((role for word, role in _PARTS if word in name), None)


def is_bookkeeping(node: NodeSpec) -> bool:
    """Return True for a step that computes nothing: a tuple taken apart, a module's attribute read or set.

    Example: `self.calls = self.calls + 1` is one box, the addition.
    """
    if node.kind == "attribute":
        return isinstance(node.args[0], Submodule)
    return node.kind in ("unpack", "setattr")


def title_of(part: Part, node: NodeSpec) -> str:
    """Return the first line of a box: the operation of the step."""
    if node.kind == "input":
        return node.name
    if node.kind == "operator":
        return _SIGNS.get(node.target, node.target)
    if node.kind == "item":
        return node.variable or shortened(f"[{index_text(part.spec, node.args[1])}]", 30)
    if word := word_of(node):
        return word
    if node.kind == "function" and node.target in _STATES:
        # The second argument is the name of the state.
        name = argument_text(part.spec, node.args[1]).strip("'")
        return shortened(f"{node.target.partition('_')[0]} state {name}")
    if node.kind == "module" and (label := label_of(part, node.target)):
        return shortened(label)
    name = _operation(part, node)
    if node.kind == "function" and name.startswith("lambda"):
        return shortened(name)
    return shortened(name.rpartition(".")[2].rstrip("_") or node.kind)


def index_text(spec: GraphSpec, arg: Arg) -> str:
    """Return an index as Python writes it between brackets, with the names of the author."""
    match arg:
        case Items("tuple", items) if items:
            inner = ", ".join(index_text(spec, item) for item in items)
            return inner if len(items) > 1 else f"{inner},"
        case Slice(start, stop, step):
            parts = (
                "" if each == Literally(None) else index_text(spec, each)
                for each in (start, stop, step)
            )
            return ":".join(parts).removesuffix(":")
        case Ref(node):
            return spec.nodes[node].variable or spec.nodes[node].name
        case Literally(value) if value is Ellipsis:
            return "..."
        case _:
            return argument_text(spec, arg)


def parts_text(part: Part, node: NodeSpec) -> str:
    """Return the classes of the modules that a function of the user gets as arguments."""
    if node.kind != "function" or word_of(node):
        return ""
    paths = [path for arg in node.args for path in submodules(arg) if path]
    return shortened(", ".join(part.kinds.get(path, path) for path in paths), 40)


def _operation(part: Part, node: NodeSpec) -> str:
    called = _called(node)
    if node.kind == "function" and node.target in part.lambdas:
        return part.lambdas[node.target]
    return part.kinds.get(called, called) if called else operation(node, part.kinds)


def _called(node: NodeSpec) -> str:
    """Return the path of the module whose method a step calls, empty if it calls none."""
    owner = node.args[0] if node.kind == "method" and node.args else None
    return owner.path if isinstance(owner, Submodule) else ""
