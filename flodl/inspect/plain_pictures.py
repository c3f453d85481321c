"""Parts of pictures of plain torch modules: the dataflow that `torch.fx` traces, or its children.

The forward never runs on data.  Tracing runs it with symbols, on a copy without data, because a forward may
change its module.
"""

from __future__ import annotations

import operator
import random
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from torch import fx, nn

from flodl.errors import GraphError
from flodl.graph.observed import twin_of
from flodl.graph.planned_module import PlannedModule
from flodl.graph.shape_nodes import metadata_nodes
from flodl.inspect.fx_specs import spec_of_trace
from flodl.ir.graph import GraphSpec, InputSpec, NodeSpec, Ref, Site
from flodl.observe.duration import short_time
from flodl.visual.part import Heat, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    Inner = Callable[[nn.Module], Part | None]
    Spans = Mapping[str, Sequence[float]]

# Layers of torch that are made of layers, and worth a look inside.
_OPEN = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Transformer, nn.TransformerEncoder,
         nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)  # fmt: skip

_TRACE_FILE = __file__
_OWN = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))


def plain_part(
    module: nn.Module, graph_part: Inner, above: frozenset[nn.Module] = frozenset()
) -> Part:
    """Return everything about a plain module that can be drawn, the modules it calls included.

    Args:
        module: a plain module.
        graph_part: returns the part of a graph among the modules, `None` for one that never ran.
        above: the modules that this one lies in.

    Raises:
        GraphError: the module was compiled to TorchScript, which has no forward in Python.
    """
    if isinstance(module, torch.jit.ScriptModule):
        message = (
            "a ScriptModule has no forward in Python to draw: draw the module it was made from"
        )
        raise GraphError(message)
    spec, reason = _wiring(module)
    parts = {
        node.target: module.get_submodule(node.target)
        for node in spec.nodes
        if node.kind == "module"
    }
    around = above | {module}
    inner: dict[str, Part] = {}
    for path, each in parts.items():
        if isinstance(each, PlannedModule):
            found = graph_part(each)
        else:
            shown = opens(each) and each not in around
            found = plain_part(each, graph_part, around) if shown else None
        if found is not None:
            inner[path] = found
    return Part(
        spec=spec,
        title=type(module).__name__,
        kinds={path: type(each).__name__ for path, each in parts.items()},
        settings={path: text for path, each in parts.items() if (text := settings_of(each))},
        parameters={
            path: sum(one.numel() for one in each.parameters() if not _is_lazy(one))
            for path, each in parts.items()
        },
        inner=inner,
        hidden=metadata_nodes(spec),
        unknown=reason,
    )


def settings_of(module: nn.Module) -> str:
    """Return what a module says of itself between its brackets, in one line."""
    try:
        return " ".join(module.extra_repr().split())
    except Exception:  # it may be code of the user, and a picture does not need it
        return ""


def heated(part: Part, spans: Spans, prefix: str = "") -> Part:
    """Return a part with the times of its submodules as heat.

    The calls of a forward belong to the steps in order, where there are as many of both.  Otherwise every
    step shows the time of all calls.

    Args:
        part: the part of a plain module.
        spans: the seconds of every call, by dotted path from the model that was profiled.
        prefix: the path of the part with a dot at its end, empty for the model.
    """
    steps: dict[str, list[int]] = {}
    for node in part.spec.nodes:
        if node.kind == "module" and prefix + node.target in spans:
            steps.setdefault(node.target, []).append(node.index)
    heat: dict[int, Heat] = {}
    for target, nodes in steps.items():
        calls = spans[prefix + target]
        for number, step in enumerate(nodes):
            alone = len(calls) == len(nodes)
            amount = calls[number] if alone else sum(calls)
            text = short_time(amount) if alone else f"{short_time(amount)} in {len(calls)} calls"
            heat[step] = Heat(amount=amount, text=text)
    inner = {path: heated(each, spans, f"{prefix}{path}.") for path, each in part.inner.items()}
    own = spans.get(prefix.removesuffix("."), ())
    return replace(
        part, inner=inner, heat=heat, measure="forward time", total=short_time(sum(own))
    )


def opens(module: nn.Module) -> bool:
    """Return True for a module that is worth a look inside."""
    if isinstance(module, _OPEN):
        return True
    if isinstance(module, torch.jit.ScriptModule):
        return False
    room = type(module).__module__
    is_layer = room.startswith(("torch.nn.modules.", "torch.nn.utils.", "torch.ao."))
    is_bare = type(module) is nn.Module  # holds what others have put into it
    return (is_bare or not is_layer) and any(True for _ in module.children())


# ---- wiring --------------------------------------------------------------------------------------


def _wiring(module: nn.Module) -> tuple[GraphSpec, str]:
    """Return the description of a module, and why its wiring is unknown, empty if it is known."""
    if is_chain(module):
        return _chain(module), ""
    if type(module).forward is nn.Module.forward:  # such as ModuleList
        return _children(module), f"{type(module).__name__} has no forward of its own"
    found, reason = None, ""
    for takes_defaults in (True, False):
        try:
            found = _traced(module, takes_defaults=takes_defaults)
        except Exception as error:  # the forward is code of the user, and symbols are no tensors
            lines = str(error).strip().splitlines()
            reason = reason or f"{type(error).__name__}: {lines[0] if lines else ''}"
        if found is not None and found.nodes:
            break
    if found is None:
        return _children(module), f"torch.fx cannot trace the forward: {reason}"
    return found, ""


def is_chain(module: nn.Module) -> bool:
    """Return True for a module that only calls its children one after the other."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _chain(module: nn.Module) -> GraphSpec:
    nodes = [NodeSpec(index=0, kind="input", target="input", name="input")]
    for name in module._modules:
        before = len(nodes) - 1
        args = (Ref(before),)
        nodes.append(NodeSpec(index=before + 1, kind="module", target=name, args=args, name=name))
    inputs = (InputSpec(name="input"),)
    return GraphSpec(inputs=inputs, nodes=tuple(nodes), output=Ref(len(nodes) - 1))


def _children(module: nn.Module) -> GraphSpec:
    names = [name for name, child in module._modules.items() if child is not None]
    nodes = (
        NodeSpec(index=index, kind="module", target=name, name=name)
        for index, name in enumerate(names)
    )
    return GraphSpec(nodes=tuple(nodes))


def _traced(module: nn.Module, *, takes_defaults: bool) -> GraphSpec:
    return spec_of_trace(_trace(module, takes_defaults=takes_defaults)[1])


def _trace(module: nn.Module, *, takes_defaults: bool) -> tuple[nn.Module, fx.Graph]:
    twin = _twin(module)
    with _undisturbed():
        return twin, _Tracer(takes_defaults=takes_defaults).trace(twin)


def traces_of(module: nn.Module) -> Iterator[tuple[nn.Module, fx.Graph]]:
    """Yield the traces of a forward that its picture may show, each with the copy that was traced.

    Args:
        module: a plain module.
    """
    for takes_defaults in (True, False):
        # The forward is code of the user, and symbols are no tensors.
        with suppress(Exception):
            yield _trace(module, takes_defaults=takes_defaults)


def _twin(module: nn.Module) -> nn.Module:
    """Return a copy of a module whose tensors have no data; graphs in it are the same objects."""
    memo: dict[int, Any] = {}
    for each in module.modules():
        if isinstance(each, PlannedModule):
            memo[id(each)] = each
        for one in each.parameters(recurse=False):
            kept = _is_lazy(one)  # it has no data anyway
            memo[id(one)] = one if kept else nn.Parameter(_bare(one), one.requires_grad)
        for value in (*each.buffers(recurse=False), *vars(each).values()):
            if isinstance(value, torch.Tensor):
                memo[id(value)] = value if _is_lazy(value) else _bare(value)
    return twin_of(module, memo)


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _bare(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="meta", requires_grad=False)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep the state of random numbers, and what tracing would warn of."""
    state = random.getstate()
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(state)


@final
class _Symbol(fx.Proxy):
    """A symbol whose items can be set; what reads it afterwards reads the result of that step."""

    def __setitem__(self, key: Any, value: Any) -> None:
        step = self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})
        self.node = step.node


@final
class _Tracer(fx.Tracer):
    """Traces the forward of one module; the modules that it calls are steps."""

    proxy_buffer_attributes = True

    def __init__(self, *, takes_defaults: bool) -> None:
        """Make a tracer.

        Args:
            takes_defaults: whether arguments with a default have it; otherwise they are inputs.
        """
        super().__init__()
        self._takes_defaults = takes_defaults

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return True: a picture of each module is made on its own."""
        del m, module_qualified_name
        return True

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Return a new step, which knows the line that it was written at."""
        node = super().create_node(*args, **kwargs)
        if (site := _site_of(sys._getframe(1))) is not None:
            node.meta["site"] = site
        return node

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Return the symbol of a step."""
        return _Symbol(node, self)

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Return the forward and its arguments: symbols, or the defaults."""
        function, args = super().create_args_for_root(root_fn, is_module, concrete_args)
        if self._takes_defaults:
            args = [_default_of(each) for each in args]
        return function, args


def _site_of(frame: FrameType | None) -> Site | None:
    """Return the innermost line that is neither of torch nor of this package."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _TRACE_FILE and frame.f_code.co_name == "_trace":
            return None
        if not file.startswith(_OWN):
            return Site(file=file, line=frame.f_lineno)
        frame = frame.f_back
    return None


def _default_of(arg: Any) -> Any:
    """Return the default of an argument, and the symbol of one that has none."""
    has_default = isinstance(arg, fx.Proxy) and arg.node.op == "placeholder" and arg.node.args
    return arg.node.args[0] if has_default else arg
