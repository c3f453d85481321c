"""One node or argument as a Python expression."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from flodl.ir.graph import Attr, Build, Items, Literally, Named, Pairs, Ref, Slice, Submodule

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.ir.graph import Arg, NodeSpec

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
PREFIX = {"neg": "-", "pos": "+", "invert": "~"}
IN_PLACE = {
    "i_add": "+=", "i_sub": "-=", "i_mul": "*=", "i_truediv": "/=", "i_floordiv": "//=",
    "i_mod": "%=", "i_pow": "**=", "i_matmul": "@=", "i_and": "&=", "i_or": "|=", "i_xor": "^=",
    "i_lshift": "<<=", "i_rshift": ">>=",
}  # fmt: skip


@final
@dataclass(slots=True)
class Writer:
    """Renders arguments; `name_of` gives the text of a node's value, `modules` collects prefixes.

    `modules` maps a container path to the local variable that holds its `_modules`; with `from_self`
    every path is written out from `self` instead.
    """

    name_of: Callable[[int], str]
    modules: dict[str, str] = field(default_factory=dict)
    from_self: bool = False

    def arg(self, arg: Arg) -> str:
        """Return the expression of one argument."""
        match arg:
            case Ref(node):
                return self.name_of(node)
            case Attr(path):
                return self.attribute(path)
            case Submodule(path):
                return self.module(path)
            case Literally(value):
                return "..." if value is Ellipsis else repr(value)
            case Named(key):
                return key
            case Items() | Pairs() | Slice() | Build():
                return self._display(arg)

    def _display(self, arg: Items | Pairs | Slice | Build) -> str:
        match arg:
            case Items("list", items):
                return f"[{', '.join(map(self.arg, items))}]"
            case Items(_, items):
                comma = "," if len(items) == 1 else ""
                display = f"({', '.join(map(self.arg, items))}{comma})"
                return f"torch.Size({display})" if arg.kind == "size" else display
            case Pairs(keys, values):
                pairs = zip(keys, values, strict=True)
                return "{" + ", ".join(f"{self.arg(k)}: {self.arg(v)}" for k, v in pairs) + "}"
            case Slice(start, stop, step):
                return f"slice({self.arg(start)}, {self.arg(stop)}, {self.arg(step)})"
            case Build(key, fields):
                return f"{key}({', '.join(f'{name}={self.arg(v)}' for name, v in fields)})"

    def module(self, path: str) -> str:
        """Return the expression of a submodule, read from its owner at every call."""
        container, _, name = path.rpartition(".")
        if not path:
            return "self"
        if self.from_self:
            return "self" + "".join(f'._modules["{part}"]' for part in path.split("."))
        if not container:
            return f'm["{name}"]'
        variable = self.modules.setdefault(container, "m_" + container.replace(".", "_"))
        return f'{variable}["{name}"]'

    def attribute(self, path: str) -> str:
        """Return the expression of a parameter, buffer or plain attribute."""
        container, _, name = path.rpartition(".")
        owner = self.module(container) if container else "self"
        if name.isidentifier() and not keyword.iskeyword(name):
            return f"{owner}.{name}"
        return f"getattr({owner}, {name!r})"  # an item of an nn.ParameterList

    def arguments(self, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...]) -> str:
        """Return a comma-separated argument list."""
        parts = [self.arg(arg) for arg in args]
        if all(name.isidentifier() and not keyword.iskeyword(name) for name, _ in kwargs):
            parts += [f"{name}={self.arg(arg)}" for name, arg in kwargs]
        else:
            parts.append("**{" + ", ".join(f"{n!r}: {self.arg(a)}" for n, a in kwargs) + "}")
        return ", ".join(parts)

    def index(self, arg: Arg) -> str:
        """Return the text between the brackets of a subscript."""
        match arg:
            case Slice(start, stop, step):
                ends = [
                    "" if part == Literally(None) else self.arg(part) for part in (start, stop)
                ]
                tail = "" if step == Literally(None) else f":{self.arg(step)}"
                return f"{ends[0]}:{ends[1]}{tail}"
            case Items("tuple", items) if len(items) > 1:
                return ", ".join(map(self.index, items))
            case _:
                return self.arg(arg)

    def node(self, node: NodeSpec) -> str:
        """Return the expression that computes a node's value."""
        match node.kind:
            case "module":
                return self._module_call(node)
            case "function":
                return f"{node.target}({self.arguments(node.args, node.kwargs)})"
            case "operator":
                return self._operator(node)
            case "merge":
                return self._merge(node)
            case "input":
                return node.target
            case "unpack":
                return self.arg(node.args[0])
            case _:
                return self._access(node)

    def _access(self, node: NodeSpec) -> str:
        match node.kind:
            case "method" if node.target == "__len__":
                return f"len({self.arg(node.args[0])})"
            case "method":
                rest = self.arguments(node.args[1:], node.kwargs)
                return f"{self.receiver(node.args[0])}.{node.target}({rest})"
            case "attribute":
                return f"{self.receiver(node.args[0])}.{node.target}"
            case "item":
                return f"{self.receiver(node.args[0])}[{self.index(node.args[1])}]"
            case _:
                message = f"{node.kind} is a statement, not an expression"
                raise AssertionError(message)

    def receiver(self, arg: Arg) -> str:
        """Return an expression that may be followed by a dot or a bracket."""
        text = self.arg(arg)
        simple = text.isidentifier() or isinstance(arg, Attr) or text.endswith((")", "]"))
        return text if simple and not text.startswith("(") else f"({text})"

    def operand(self, arg: Arg) -> str:
        """Return an expression that is safe beside an operator."""
        text = self.arg(arg)
        return text if _atomic(text) else f"({text})"

    def _module_call(self, node: NodeSpec) -> str:
        module = self.module(node.target)
        if len(node.args) == 1 and not node.kwargs:
            return f"run({module}, {self.arg(node.args[0])})"
        return f"{module}({self.arguments(node.args, node.kwargs)})"

    def _operator(self, node: NodeSpec) -> str:
        operands = [self.operand(arg) for arg in node.args]
        if node.target in INFIX:
            return f"{operands[0]} {INFIX[node.target]} {operands[1]}"
        if node.target in PREFIX:
            return f"{PREFIX[node.target]}{operands[0]}"
        name = "i" + node.target[2:] if node.target in IN_PLACE else node.target
        return f"operator.{name}({', '.join(map(self.arg, node.args))})"

    def _merge(self, node: NodeSpec) -> str:
        values = [self.operand(arg) for arg in node.args]
        match node.target:
            case "add":
                return " + ".join(values)
            case "mean":
                return f"({' + '.join(values)}) / {len(values)}"
            case "mul":
                return " * ".join(values)
            case "max":
                text = values[0]
                for value in values[1:]:
                    text = f"torch.maximum({text}, {value})"
                return text
            case _:
                dim = self.arg(dict(node.kwargs)["dim"])
                return f"torch.{node.target}([{', '.join(values)}], dim={dim})"


def _atomic(text: str) -> bool:
    """Return True if an operator beside the text cannot split it: one name, number, call or subscript."""
    if text.replace(".", "").replace("_", "").isalnum():
        return True
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char in " +-*/%@&|^<>=~":
            return False
    return True
