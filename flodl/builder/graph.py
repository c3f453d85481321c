"""`Graph`: a described flow as a torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from flodl.errors import GraphError
from flodl.graph.compiled_plan import CompiledPlan
from flodl.graph.error_notes import explain
from flodl.graph.plan_cache import PlanCache
from flodl.graph.planned_module import PlannedModule, set_plans
from flodl.inspect.pictures import flow_text
from flodl.inspect.view import NAMES, ViewMixin
from flodl.ir.graph import GraphSpec, InputSpec, NodeSpec, Ref
from flodl.nodes.fast_path import must_run_plainly

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = "flow"
_METHODS = NAMES | {"from_sequential"}


class Graph(ViewMixin, PlannedModule):
    """A flow graph; as a torch module it can be trained, saved, copied, compiled and exported like any.

    Graphs are made by `FlowBuilder.build()` and `Graph.from_sequential`. A graph is its own view: it has the
    methods that `flodl.view` offers for other modules.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Linear(4, 8)).through(torch.nn.GELU()).build()
        >>> graph(torch.ones(2, 4)).shape
        torch.Size([2, 8])
        >>> list(graph.state_dict())
        ['linear_1.weight', 'linear_1.bias']
    """

    def __init__(
        self,
        spec: GraphSpec,
        modules: Mapping[str, nn.Module],
        constants: Mapping[str, object] | None = None,
    ) -> None:
        """Make a graph from a description and the modules it names.

        Args:
            spec: the description.
            modules: the submodules by name, in registration order.
            constants: functions and objects that the description names.
        """
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self._add_plan(CompiledPlan(spec, constants or {}, _title(spec)))

    def __str__(self) -> str:
        """Return the flow as text; of a class that brings a `__repr__`, what that says."""
        own = type(self).__repr__ is not nn.Module.__repr__
        return repr(self) if own else flow_text(self)

    @classmethod
    def from_sequential(cls, modules: nn.Sequential) -> Graph:
        """Make a graph of an `nn.Sequential`: one node per child, the same `state_dict` keys.

        Example:
            >>> import torch
            >>> from flodl import Graph
            >>> graph = Graph.from_sequential(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()))
            >>> list(graph.state_dict())
            ['0.weight', '0.bias']
        """
        nodes = [NodeSpec(index=0, kind="input", target="x", name="x")]
        for name in modules._modules:  # named_children drops repeated modules
            nodes.append(
                NodeSpec(
                    index=len(nodes),
                    kind="module",
                    target=name,
                    args=(Ref(len(nodes) - 1),),
                    name=name,
                )
            )
        spec = GraphSpec(
            inputs=(InputSpec(name="x"),), nodes=tuple(nodes), output=Ref(len(nodes) - 1)
        )
        return Graph(spec, dict(modules._modules))

    @property
    def _viewed(self) -> nn.Module:
        return self

    def _add_plan(self, program: CompiledPlan) -> None:
        names = tuple(each.name for each in program.spec.inputs)
        set_plans(self, {MAIN: PlanCache(_no_plan, names)})
        self._flodl_plans[MAIN].add(program)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, nn.Module) and name in _METHODS:
            self.add_module(name, value)
        else:
            super().__setattr__(name, value)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Add a submodule; one that is named after a tag may have the name of a method."""
        if name in _METHODS:
            self._modules[name] = module
            vars(self)[name] = module
        else:
            super().add_module(name, module)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run the graph on its inputs, in the order in which they were declared."""
        plans = self._flodl_plans[MAIN]
        if must_run_plainly():
            return plans.dispatch_plainly(self, *inputs, **named)
        try:
            return plans.dispatch(self, *inputs, **named)
        except Exception as error:
            explain(error, self)
            raise

    def _flodl_programs(self) -> tuple[CompiledPlan, ...]:
        return self._flodl_plans[MAIN].programs

    # ---- copying ------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        program = state.pop("_flodl_plans")[MAIN].programs[0]
        state["_description"] = (program.spec, program.constants)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        spec, constants = state.pop("_description")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._add_plan(CompiledPlan(spec, constants, _title(spec)))


def _title(spec: GraphSpec) -> str:
    return spec.label or "graph"


def _no_plan(module: Graph, *inputs: Any) -> Any:
    del inputs
    message = f"{type(module).__name__}: this graph has no description"
    raise GraphError(message)
