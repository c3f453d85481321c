"""`Graph`: a described flow as a torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from flodl.errors import GraphError
from flodl.graph.batch_methods import BatchMixin
from flodl.graph.checkpoint_methods import CheckpointMixin
from flodl.graph.compiled_plan import CompiledPlan
from flodl.graph.error_notes import explain
from flodl.graph.picture_methods import PictureMixin
from flodl.graph.plan_cache import PlanCache
from flodl.graph.state import Memory
from flodl.graph.state_methods import StateMixin
from flodl.graph.text_methods import TextMixin
from flodl.graph.training_methods import TrainingMixin
from flodl.graph.tree_methods import TreeMixin
from flodl.ir.graph import GraphSpec, InputSpec, NodeSpec, Ref
from flodl.ir.pretty import flow_text
from flodl.nodes.fast_path import must_run_plainly

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = "flow"


class Graph(
    TextMixin,
    StateMixin,
    TreeMixin,
    PictureMixin,
    CheckpointMixin,
    BatchMixin,
    TrainingMixin,
    nn.Module,
):
    """A flow graph; as a torch module it can be trained, saved, copied, compiled and exported like any.

    Graphs are made by `FlowBuilder.build()`, `Graph.from_sequential`, or by subclassing `FlowModule`.

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
        self._set_plans({MAIN: PlanCache(_no_plan, tuple(each.name for each in spec.inputs))})
        self._plans[MAIN].add(CompiledPlan(spec, constants or {}, _title(spec)))

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

    _plans: dict[str, PlanCache]

    _memory: Memory
    step_count: int
    epoch_count: int

    def _set_plans(self, plans: dict[str, PlanCache]) -> None:
        # Not through nn.Module.__setattr__: plans and memory are neither weights nor structure.
        object.__setattr__(self, "_plans", plans)
        if "_memory" not in vars(self):
            object.__setattr__(self, "_memory", Memory())
            vars(self).update(step_count=0, epoch_count=0)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run the graph on its inputs, in the order in which they were declared."""
        plans = self._plans[MAIN]
        if must_run_plainly():
            return plans.dispatch_plainly(self, *inputs, **named)
        try:
            return plans.dispatch(self, *inputs, **named)
        except Exception as error:
            explain(error, self)
            raise

    # ---- what was described -------------------------------------------------------------------

    def _programs(self) -> tuple[CompiledPlan, ...]:
        return self._plans[MAIN].programs

    def __str__(self) -> str:
        """Return the flow as text; of a class that brings a `__repr__`, what that says."""
        if type(self).__repr__ is not nn.Module.__repr__:
            return repr(self)
        programs = self._programs()
        if not programs:
            return f"{type(self).__name__}: the flow is recorded at the first call"
        return flow_text(programs[-1].spec, type(self).__name__, self._kinds())

    def _kinds(self) -> dict[str, str]:
        """Map each submodule path to its class name."""
        return {path: type(module).__name__ for path, module in self.named_modules() if path}

    def _apply(self, fn: Any, recurse: bool = True) -> Any:  # torch's signature
        self._memory.move(fn)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    # ---- copying ------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        program = state.pop("_plans")[MAIN].programs[0]
        state["_description"] = (program.spec, program.constants)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        spec, constants = state.pop("_description")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._set_plans({MAIN: PlanCache(_no_plan, tuple(each.name for each in spec.inputs))})
        self._plans[MAIN].add(CompiledPlan(spec, constants, _title(spec)))


def _title(spec: GraphSpec) -> str:
    return spec.label or "graph"


def _no_plan(module: Graph, *inputs: Any) -> Any:
    del inputs
    message = f"{type(module).__name__}: this graph has no description"
    raise GraphError(message)
