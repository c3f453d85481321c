"""Shapes of the values in the forward of a plain module, from one call of it.

Hooks note what a module got and what the modules that it calls returned. The trace of its forward then runs
on tensors without data, where each call of a module gives what was noted, so nothing is computed twice:

    y = self.conv(x)          conv: noted 2x8x16x16           x: noted 2x3x32x32
    return F.relu(y) + 1      relu: runs on meta, 2x8x16x16   add: the same

A step that needs data, as `.item()` does, has no shape, and neither have the steps that read it.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from flodl.graph.planned_module import PlannedModule
from flodl.inspect.plain_pictures import is_chain, opens, traces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch.utils.hooks import RemovableHandle


@final
@dataclass(slots=True)
class _Call:
    """One call of a module: its arguments, and the results of the modules that it calls, in order."""

    module: nn.Module
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]]
    results: dict[int, list[Any]] = field(default_factory=dict)


@final
class PlainCalls:
    """The calls of the plain modules of a model, by the identity of the module.

    A module whose calls differ in the shapes of their arguments counts as unknown.
    """

    def __init__(self) -> None:
        self._first: dict[int, _Call | None] = {}
        self._open: list[_Call] = []

    def watch(self, model: nn.Module) -> list[RemovableHandle]:
        """Put hooks on the plain modules of a model that are worth a look inside, and on those they call."""
        opened = [
            each
            for each in model.modules()
            if not isinstance(each, PlannedModule) and (each is model or opens(each))
        ]
        handles = [
            each.register_forward_pre_hook(self._enter, with_kwargs=True) for each in opened
        ]
        inside = {id(one): one for each in opened for one in _reached(each)}
        return handles + [each.register_forward_hook(self._leave) for each in inside.values()]

    def values(self, module: nn.Module) -> dict[str, Any]:
        """Return what is known of the values in a module's forward, by the name of the step."""
        call = self._first.get(id(module))
        return {} if call is None else _values(call)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = _Call(module, (_bare(args), _bare(kwargs)))
        known = self._first.setdefault(id(module), call)
        if known is not None and _told(known.arguments) != _told(call.arguments):
            self._first[id(module)] = None
        self._open.append(call)

    def _leave(self, module: nn.Module, args: object, output: Any) -> None:
        del args
        while self._open and self._open[-1].module is module:
            self._open.pop()
        if self._open:
            self._open[-1].results.setdefault(id(module), []).append(_bare(output))


def value_text(value: Any) -> str:
    """Return the shapes and types of the tensors in a value, empty if there are none.

    Example:
        >>> import torch
        >>> from flodl.inspect.facts.plain_shapes import value_text
        >>> value_text((torch.ones(2, 3), {"n": torch.tensor(1)}))
        '(2\u00d73 float32, {n: scalar int64})'
    """
    match value:
        case torch.Tensor():
            shape = "\u00d7".join(map(str, value.shape)) or "scalar"
            return f"{shape} {str(value.dtype).removeprefix('torch.')}"
        case tuple() | list():
            texts = [value_text(each) for each in value]
            return f"({', '.join(each or '-' for each in texts)})" if any(texts) else ""
        case dict():
            texts = [f"{key}: {text}" for key, each in value.items() if (text := value_text(each))]
            return "{" + ", ".join(texts) + "}" if texts else ""
        case _:
            return ""


def _reached(module: nn.Module) -> Iterator[nn.Module]:
    """Yield a plain module and those in it, up to graphs: it may call any of them."""
    yield module
    if not isinstance(module, PlannedModule):
        for each in module.children():
            yield from _reached(each)


def _bare(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, _without_data, value)


def _without_data(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _told(value: Any) -> str:
    return str(pytree.tree_map_only(torch.Tensor, value_text, value))


def _values(call: _Call) -> dict[str, Any]:
    """Run the trace of a forward on tensors without data."""
    if is_chain(call.module):
        noted = {name: call.results.get(id(each)) for name, each in call.module.named_children()}
        results = {name: found[0] for name, found in noted.items() if found}
        return {"input": call.arguments[0][0], **results} if call.arguments[0] else results
    shown = next((each for each in traces_of(call.module) if each[1].nodes), None)
    if shown is None:
        return {}
    run = _Run(*shown, call)
    return run.known() if run.fits else {}


@final
class _Run(fx.Interpreter):
    """One run of a trace in which each call of a module gives the noted result."""

    def __init__(self, twin: nn.Module, graph: fx.Graph, call: _Call) -> None:
        super().__init__(fx.GraphModule(twin, graph))
        self._steps = list(graph.nodes)
        args, kwargs = call.arguments
        self._call = call
        self._taken: dict[int, int] = {}
        self._bound: dict[str, Any] = {}
        self.fits = True
        with suppress(TypeError, ValueError):
            bound = inspect.signature(call.module.forward).bind(*args, **kwargs)
            self._bound = dict(bound.arguments)
        for node in self._steps:
            # A trace that took a default says nothing about a call that gave something else.
            given = self._bound.get(str(node.target).lstrip("*"))
            if node.op == "placeholder" and node.args and not node.users and given is not None:
                self.fits = given is node.args[0]

    def known(self) -> dict[str, Any]:
        """Return the values by the name of the step, without those that need data."""
        with torch.device("meta"), torch.no_grad():
            for node in self._steps:
                if any(each not in self.env for each in node.all_input_nodes):
                    continue
                # An operation may need data, or a kernel that does not exist for tensors without any.
                with suppress(Exception):
                    self.env[node] = self.run_node(node)
        return {node.name: value for node, value in self.env.items()}

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the argument of the call, or the default."""
        del kwargs
        name = str(target).lstrip("*")
        return self._bound[name] if name in self._bound else args[0]

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return what the module returned in the call, in the order of its calls."""
        del args, kwargs
        called = self._call.module.get_submodule(target)
        number = self._taken.get(id(called), 0)
        self._taken[id(called)] = number + 1
        return self._call.results[id(called)][number]

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return a parameter or a buffer without its data."""
        return _bare(super().get_attr(target, args, kwargs))
