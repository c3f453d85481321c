"""The base of graphs and flow modules: a module that runs a recorded plan.

What it adds has names that begin with `_flodl`, but for two that read what was described. These two, and the
methods of a flow module, make way for a member of the same name:

    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.code = nn.Linear(4, 4)     # Net().code is the layer; flodl.view(net).code the source
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final, overload

from torch import nn

from flodl.graph.plan_cache import PlanCache
from flodl.graph.state import Memory
from flodl.graph.texts import code_of, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from flodl.graph.compiled_plan import CompiledPlan
    from flodl.ir.graph import GraphSpec

_T = TypeVar("_T")
Method = TypeVar("Method", bound="Callable[..., Any]")
_TAKEN = "_flodl_taken"


@final
class Offered(Generic[_T]):
    """An attribute of a class that makes way for a member of the same name.

    It has no `__set__`, so a value in the `__dict__` of the instance wins
    (https://docs.python.org/3/howto/descriptor.html#invocation-from-an-instance). For a parameter, buffer or
    submodule it asks `nn.Module.__getattr__`, which finds the member.
    """

    def __init__(self, read: Callable[[Any], _T], of_class: Any = None) -> None:
        """Read with a function of the instance; the class itself has `of_class`."""
        self._read = read
        self._of_class = of_class
        self._name = ""
        self.__doc__ = read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Offered[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Offered[_T] | _T:
        if instance is None:
            return self if self._of_class is None else self._of_class
        own = vars(instance)
        if self._name in own.get(_TAKEN, ()) or self._name in own.get("_modules", ()):
            # Not an AttributeError for Python to call this: torch.compile does not follow that.
            return cast("_T", nn.Module.__getattr__(cast("nn.Module", instance), self._name))
        return self._read(instance)


def offered(method: Method) -> Method:
    """Let a method make way for a member of the same name.

    Example:
        >>> from flodl.graph.planned_module import offered
        >>> class Model:
        ...     @offered
        ...     def build(self) -> str:
        ...         return "built"
        >>> model = Model()
        >>> model.build()
        'built'
        >>> model.build = 3
        >>> model.build
        3
    """
    made: Any = Offered(partial(MethodType, method), method)
    return cast("Method", made)


class PlannedModule(nn.Module):
    """A module that runs recorded plans: a graph from a builder, or a flow module of a user."""

    # transformers evaluates the annotations of a class and its bases, so their names are imported here.
    _flodl_plans: dict[str, PlanCache]
    _flodl_memory: Memory
    # False for a class that wrote its own forward below one with a flow: no call records that flow.
    _flodl_runs_plans: bool = True

    @Offered
    def spec(self) -> GraphSpec:
        """The description that is in force: the most recently recorded one.

        Raises:
            NotRecordedError: the flow has not been recorded yet.
        """
        return spec_of(self)

    @Offered
    def code(self) -> str:
        """The generated Python source of the forward, one text per recorded plan.

        Raises:
            NotRecordedError: the flow has not been recorded yet.
        """
        return code_of(self)

    @abstractmethod
    def _flodl_programs(self) -> tuple[CompiledPlan, ...]:
        """Return the plans that `forward` runs, the newest last."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:  # torch's signature
        self._flodl_memory.move(fn)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    # ---- members with the name of an offered attribute ------------------------------------------

    def register_buffer(
        self, name: str, tensor: torch.Tensor | None, persistent: bool = True
    ) -> None:
        """Register a buffer, as in torch."""
        _take(self, name)
        super().register_buffer(name, tensor, persistent)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register a parameter, as in torch."""
        _take(self, name)
        super().register_parameter(name, param)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Register a submodule, as in torch."""
        _take(self, name)
        super().add_module(name, module)


def set_plans(module: PlannedModule, plans: dict[str, PlanCache]) -> None:
    """Give a module its plans, and a memory if it has none."""
    # Not through nn.Module.__setattr__: plans and memory are neither weights nor structure.
    own = vars(module)
    own["_flodl_plans"] = plans
    own.setdefault("_flodl_memory", Memory())


def _take(module: nn.Module, name: str) -> None:
    for kind in type(module).__mro__:
        if name in vars(kind):
            if isinstance(vars(kind)[name], Offered):
                vars(module).setdefault(_TAKEN, set()).add(name)
            return
