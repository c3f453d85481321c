"""Observation of single values of a running plan: each is seen by name, and may be replaced.

    def forward(self, x):                      def forward(self, x):
        q = run(m["q"], x)                         q = run(m["q"], x)
        att = q.softmax(-1)                        att = q.softmax(-1)
        ...                                        att = _see(5, att)
                                                   ...

The code with `_see` is a variant of the plan, so a plan that nobody observes has its text unchanged. A
recording runs no generated code. So where a call under observation meets no plan, a copy of the module
records one, with the random state and everything else left alone, and the call goes on with it.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from flodl.graph.shape_nodes import metadata_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flodl.ir.graph import GraphSpec

_Module = TypeVar("_Module")
_EFFECTS = ("unpack", "setattr", "enter", "exit", "loop")
# How many recordings by copies are under way, by thread; most of the time there is none.
_paused: dict[int, int] = {}


class AbstractObserver(ABC):
    """What is seen of the plans of one flow of one module."""

    @abstractmethod
    def wanted(self, spec: GraphSpec) -> dict[int, tuple[str, ...]]:
        """Return the nodes of a plan to be seen, with their names."""

    @abstractmethod
    def see(self, name: str, value: Any) -> Any:
        """Take a value, and return the one that the plan goes on with."""


def value_names(spec: GraphSpec) -> dict[str, int]:
    """Return the nodes of a plan by the names of their values.

    A value has the name of its variable in the source, or that of its node, and those of its tags. The
    values that a variable has one after the other are `x[0]`, `x[1]` and so on; `x` is the last one. Outputs
    of submodules that have no variable are left out: the path of the submodule names them.

    Args:
        spec: the description.
    """
    metadata = metadata_nodes(spec)
    found: dict[str, list[int]] = {}
    for node in spec.nodes:
        effect = node.kind in _EFFECTS or node.target in ("setitem", "delitem")
        if node.index in metadata or effect:
            continue
        label = node.variable or (node.target if node.kind == "input" else "")
        label = label or (node.name if node.kind != "module" else "")
        if label:
            found.setdefault(label, []).append(node.index)
    names: dict[str, int] = {}
    for label, nodes in found.items():
        names |= {f"{label}[{number}]": node for number, node in enumerate(nodes)}
        names[label] = nodes[-1]
    seen = {node for nodes in found.values() for node in nodes}
    return names | {tag.name: tag.node for tag in spec.tags if tag.node in seen}


def seeing(
    observers: Sequence[AbstractObserver], spec: GraphSpec, start: int
) -> tuple[frozenset[int], Callable[[int, Any], Any]]:
    """Return the nodes after `start` that some observer wants, and the function `_see` for them."""
    steps: dict[int, list[tuple[AbstractObserver, str]]] = {}
    for observer in observers:
        for node, names in observer.wanted(spec).items():
            if node > start:
                steps.setdefault(node, []).extend((observer, name) for name in names)

    def see(node: int, value: Any) -> Any:
        if not is_paused():
            for observer, name in steps[node]:
                value = observer.see(name, value)
        return value

    return frozenset(steps), see


def is_paused() -> bool:
    """Return True while a copy records for this thread: nothing that happens then is to be seen."""
    return bool(_paused) and threading.get_ident() in _paused


@contextmanager
def paused() -> Iterator[None]:
    """Let nobody see what this thread computes, and give the random state back."""
    thread = threading.get_ident()
    depth = _paused.get(thread, 0)
    _paused[thread] = depth + 1
    try:
        with torch.random.fork_rng():
            yield
    finally:
        if depth:
            _paused[thread] = depth
        else:
            del _paused[thread]


def copied(value: Any) -> Any:
    """Return inputs for a recording: tensors are copies, so that it may work in place."""
    return pytree.tree_map_only(torch.Tensor, _clone, value)


def twin_of(module: _Module, memo: dict[int, Any] | None = None) -> _Module:
    """Return a copy of a module to record with or to look into; observers do not follow it.

    A module may keep a result of its last call (`self.attention = weights`). `copy.deepcopy` refuses such a
    tensor, because it belongs to a backward graph; the copy gets its numbers in a tensor of its own.
    """
    with _KeptResults():
        return copy.deepcopy(module, memo)


@final
class _KeptResults(TorchFunctionMode):
    """A mode in which tensors that are results of a call can be copied, wherever a module keeps them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.__deepcopy__ and not args[0].is_leaf:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = _clone(tensor)
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    made = tensor.detach().clone()
    return made.requires_grad_() if tensor.requires_grad else made
