"""Trace of `torch.fx` -> description, as far as pictures need it: what each step is and what it reads."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import fx

from flodl.ir.graph import (
    NOWHERE,
    Arg,
    Attr,
    GraphSpec,
    InputSpec,
    Items,
    Literally,
    Named,
    NodeSpec,
    Pairs,
    Ref,
    Slice,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flodl.ir.graph import NodeKind

_ROOMS: Final = {"torch.nn.functional": "F", "torch._C._nn": "F", "torch._C": "torch"}
_LITERALS = (bool, int, float, str, bytes, type(None), type(...))


def spec_of_trace(graph: fx.Graph) -> GraphSpec:
    """Return the description of a traced forward, for pictures only.

    Assertions and inputs that have their default are left out.

    Args:
        graph: the trace.
    """
    seen = _Translation()
    dropped: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        is_unread = node.op == "placeholder" and node.args and not node.users
        only_dropped = node.users and all(user in dropped for user in node.users)
        if node.target is torch._assert or is_unread or only_dropped:
            dropped.add(node)
    for node in graph.nodes:
        if node not in dropped:
            seen.add(node)
    return GraphSpec(inputs=tuple(seen.inputs), nodes=tuple(seen.nodes), output=seen.output)


@final
class _Translation:
    """The nodes of a description in the making."""

    def __init__(self) -> None:
        self.inputs: list[InputSpec] = []
        self.nodes: list[NodeSpec] = []
        self.output: Arg = Literally(None)
        self._values: dict[fx.Node, Arg] = {}

    def add(self, node: fx.Node) -> None:
        """Add the next node of the trace."""
        args = tuple(self._arg(each) for each in node.args)
        match node.op:
            case "output":
                self.output = args[0]
            case "get_attr":
                self._values[node] = Attr(str(node.target))
            case "placeholder":
                name = str(node.target).lstrip("*")
                self.inputs.append(InputSpec(name=name))
                self._put(node, "input", name, ())
            case "call_module":
                self._put(node, "module", str(node.target), args)
            case "call_method":
                self._put(node, "method", str(node.target), args)
            case _:
                self._function(node, args)

    def _function(self, node: fx.Node, args: tuple[Arg, ...]) -> None:
        function: Any = node.target
        name = getattr(function, "__name__", type(function).__name__)
        module = getattr(function, "__module__", None) or ""
        if function is operator.getitem:
            self._put(node, "item", "", args)
        elif function is getattr:
            self._put(node, "attribute", str(node.args[1]), args[:1])
        elif module == "_operator":
            self._put(node, "operator", _operator_name(name), args)
        else:
            room = _ROOMS.get(module, module)
            self._put(node, "function", f"{room}.{name}" if room else name, args)

    def _put(self, node: fx.Node, kind: NodeKind, target: str, args: tuple[Arg, ...]) -> None:
        index = len(self.nodes)
        kwargs = tuple((key, self._arg(value)) for key, value in node.kwargs.items())
        self.nodes.append(
            NodeSpec(
                index=index,
                kind=kind,
                target=target,
                args=args,
                kwargs=kwargs,
                name=node.name,
                site=node.meta.get("site", NOWHERE),
            )
        )
        self._values[node] = Ref(index)

    def _arg(self, value: Any) -> Arg:
        match value:
            case fx.Node():
                return self._values[value]
            case slice():
                return Slice(self._arg(value.start), self._arg(value.stop), self._arg(value.step))
            case dict():
                return Pairs(self._args(value.keys()), self._args(value.values()))
            case list():
                return Items("list", self._args(value))
            case tuple():
                return Items("tuple", self._args(value))
            case _ if isinstance(value, _LITERALS):
                return Literally(value)
            case _:
                return Named(str(value))

    def _args(self, values: Iterable[Any]) -> tuple[Arg, ...]:
        return tuple(self._arg(each) for each in values)


def _operator_name(name: str) -> str:
    """Return the name of an operator as descriptions have it: `i_add` for that in place."""
    plain = name[1:]
    in_place = name.startswith("i") and not vars(operator).keys().isdisjoint({plain, f"{plain}_"})
    return f"i_{plain}" if in_place else name
