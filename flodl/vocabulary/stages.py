"""Stages - modules, callables, chains of them - run as steps of a recording."""

from __future__ import annotations

import inspect
import operator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.ir.graph import Branch
from flodl.tracing.callsite import call_site
from flodl.tracing.containers import DICTS, LISTS
from flodl.tracing.flow_value import NeedsValueError, is_flow
from flodl.tracing.method_call import Method
from flodl.tracing.pytrees import PLAIN_KINDS, leaves, tracer_of
from flodl.tracing.torch_call_names import VALUE_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer
    from flodl.vocabulary.branches import Branches

_NUMBERS = (bool, int, float)
Stage: TypeAlias = "nn.Module | Callable[..., Any] | Sequence[Stage]"


def run_stage(
    tracer: Tracer, stage: Any, first: Any, extra: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Record `stage(first, *extra, **named)`; the extra arguments go to the first stage of a chain.

    Raises:
        FlowError: the stage is not a module, callable or chain, or a class that needs arguments.
    """
    kind = type(stage)
    if kind in (tuple, list) or is_module_list(stage):
        value = first
        for position, each in enumerate(stage):
            rest = (extra, named) if position == 0 else ((), {})
            value = run_stage(tracer, each, value, *rest)
        return value
    return call_stage(tracer, stage, (first, *extra), named)


def is_module_list(stage: Any) -> bool:
    """Return True if a stage is a list of modules without a forward."""
    return isinstance(stage, nn.ModuleList) and type(stage).forward is nn.Module.forward


def call_stage(tracer: Tracer, stage: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Record one call of a module or callable."""
    if is_flow(stage) or tracer.closures.is_lifted(stage):
        # A layer or function that a step has made: whatever it is in the call at hand is called.
        return tracer.step(
            "function", "operator.call", (stage, *args), named, compute=operator.call
        )
    if isinstance(stage, type) and issubclass(stage, nn.Module):
        if not _takes_values(args, named):
            # The code calls the class here, not the layer: every call makes another layer.
            name = tracer.encoder.callable_name(stage)
            return tracer.step("function", name, args, named, compute=stage)
        stage = instantiate(stage)
    if isinstance(stage, nn.Module):
        return call_module(tracer, stage, args, named)
    owner = getattr(stage, "__self__", None)
    if isinstance(owner, torch.Tensor):
        return _call_of_tensor(tracer, owner, stage.__name__, args, named)
    if stage in _NUMBERS and len(args) == 1 and type(args[0]) in PLAIN_KINDS:
        return stage(*args)
    if _is_method(stage):
        return stage(*args, **named)
    if not callable(stage):
        message = f"{call_site()}: `{stage!r}` is not a stage; give a module, a callable, or a tuple of those"
        raise FlowError(message)
    if _is_of_no_tensor(tracer, stage, args):
        return getattr(args[0], stage.__name__)(*args[1:], **named)
    target = tracer.encoder.callable_name(stage)
    args, named = (
        _standing(tracer, args),
        dict(zip(named, _standing(tracer, named.values()), strict=True)),
    )
    is_own = getattr(stage, "__self__", None) is tracer.module
    _need_values_to_fill(tracer, args, named)
    compute = partial(_whole, stage) if is_own else stage
    result = tracer.step("function", target, args, named, compute=compute)
    tracer.attributes.touched(stage, args)
    return result


def _takes_values(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    found = (leaf for each in (*args, *named.values()) for leaf in leaves(each))
    return any(is_flow(leaf) or isinstance(leaf, torch.Tensor) for leaf in found)


def _call_of_tensor(
    tracer: Tracer, owner: torch.Tensor, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Record the call of a bound method of a parameter or buffer, which is read in every call."""
    if name in VALUE_METHODS:
        function = getattr(torch.Tensor, name)
        target = tracer.encoder.callable_name(function)
        return tracer.step("function", target, (owner, *args), named, compute=function)
    return tracer.step(
        "method", name, (owner, *args), named,
        compute=lambda tensor, /, *rest, **more: getattr(tensor, name)(*rest, **more),
    )  # fmt: skip


def _need_values_to_fill(tracer: Tracer, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """End a recording without values where a step is given a container: it may change it."""
    if tracer.valued or not any(type(x) in (*LISTS, *DICTS) for x in (*args, *named.values())):
        return
    raise NeedsValueError


def _standing(tracer: Tracer, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return arguments with the lists and dicts of the module as they are: a function may fill them."""
    module = tracer.module
    lists = {id(each): name for name, each in vars(module).items() if type(each) in (list, dict)}
    return tuple(
        tracer.step("function", "getattr", (module, lists[id(each)]), compute=getattr)
        if id(each) in lists
        else each
        for each in values
    )


def _whole(method: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Run a method of the module as one step; the containers it is given are copies.

    Raises:
        FlowError: it changes one of them, which the flow would not see.
    """
    given = [each for each in (*args, *named.values()) if type(each) in (list, dict)]
    before = [leaves(each) for each in given]
    result = method(*args, **named)
    for old, each in zip(before, given, strict=True):
        now = leaves(each)
        if len(now) != len(old) or any(a is not b for a, b in zip(now, old, strict=True)):
            message = (
                f"{call_site()}: `{method.__name__}` is one step of the flow and changes a "
                f"{type(each).__name__} that it is given; let it return the {type(each).__name__}"
            )
            raise FlowError(message)
    return result


def _is_of_no_tensor(tracer: Tracer, stage: Any, args: tuple[Any, ...]) -> bool:
    """Return True if `torch.Tensor.item` or the like is given a number or array of numpy, which has it, too.

    Raises:
        NeedsValueError: that is not known yet; a step before made something else than tensors.
    """
    name = getattr(stage, "__name__", "")
    if name not in VALUE_METHODS or not args or not is_flow(args[0]):
        return False
    if getattr(torch.Tensor, name, None) is not stage:
        return False
    if tracer.valued:
        return not isinstance(object.__getattribute__(args[0], "_value"), torch.Tensor)
    if any(node.target == "torch.Tensor.numpy" for node in tracer.nodes):
        raise NeedsValueError
    return False


def call_module(
    tracer: Tracer, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Record one call of a module that lives below the owner, or of any other one as a constant."""
    path = tracer.encoder.module_path(module)
    if path is None and any(_holds_flow(value) for value in vars(module).values()):
        # Made inside the flow from symbolic sizes, such as nn.Upsample(size=x.shape[2:]).
        return module.forward(*args, **named)
    if not type(module).__module__.startswith("torch."):
        args, named = (
            _standing(tracer, args),
            dict(zip(named, _standing(tracer, named.values()), strict=True)),
        )
        _need_values_to_fill(tracer, args, named)
    if path is None:
        key = tracer.encoder.constant(module, type(module).__name__, portable=False).key
        return tracer.step("function", key, args, named, compute=module)
    name = path.rpartition(".")[2] if path else "self"
    name = path.replace(".", "_") if name.isdigit() else name
    return tracer.step("module", path, args, named, compute=module, name=name)


def _holds_flow(value: Any) -> bool:
    return any(is_flow(leaf) for leaf in leaves(value))


def instantiate(kind: type[nn.Module]) -> nn.Module:
    """Return an instance of a module class that was given where an instance is meant.

    Raises:
        FlowError: the class needs arguments, or has parameters that nothing would train.
    """
    required = [
        each.name
        for each in list(inspect.signature(kind).parameters.values())
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    if required:
        message = (
            f"{call_site()}: `{kind.__name__}` is a class that needs {', '.join(required)}; "
            f"write `{kind.__name__}(...)`"
        )
        raise FlowError(message)
    return kind()


def run_also_with(x: Flow, paths: tuple[Any, ...], named: dict[str, Any]) -> Flow:
    """Record the sum of two paths, both in the order in which they were written."""
    order = dict(zip(("skip", "main"), paths, strict=False)) | named
    if set(order) != {"skip", "main"} or len(paths) + len(named) != 2:
        message = f"{call_site()}: also_with takes two paths: also_with(skip=..., main=...)"
        raise FlowError(message)
    # The order decides about the strides of the sum where the two have different ones.
    first, second = run_each(x, list(order.values()))
    total: Flow = first + second
    return total


def run_each(x: Flow, parts: Sequence[Any]) -> list[Any]:
    """Record several stages on the same value, one after the other, as branches of one split."""
    tracer: Tracer = object.__getattribute__(x, "_tracer")
    site, outer = tracer.forced_site or call_site(), tracer.branch
    values = []
    try:
        for position, part in enumerate(parts, start=1):
            tracer.branch = Branch(k=position, n=len(parts), site=site)
            values.append(run_stage(tracer, part, x, (), {}))
    finally:
        tracer.branch = outer
    return values


def are_stages(parts: tuple[Any, ...]) -> bool:
    """Return True if the arguments of `split` are stages rather than sizes."""
    if _is_one_module_list(parts):
        return True
    if len(parts) == 1 and type(parts[0]) in (list, tuple):
        parts = tuple(parts[0])
    return (
        bool(parts)
        and all(
            callable(part) or isinstance(part, nn.ModuleList) or _is_chain(part) for part in parts
        )
        and not any(is_flow(part) for part in parts)
    )


def _is_one_module_list(parts: tuple[Any, ...]) -> bool:
    return len(parts) == 1 and not is_flow(parts[0]) and is_module_list(parts[0])


def _is_chain(part: Any) -> bool:
    return type(part) in (tuple, list) and all(callable(each) or _is_chain(each) for each in part)


def _is_method(stage: Any) -> bool:
    """Return True if a stage is a method of a Flow, such as `getattr(x, "exp")`: it records itself."""
    return type(stage) is Method


def run_branches(x: Flow, parts: tuple[Any, ...]) -> Branches:
    """Record the branches of a split."""
    from flodl.vocabulary.branches import Branches

    # How long a list of modules is, is a setting of the model: one branch, or none, is no mistake then.
    least = 0 if _is_one_module_list(parts) else 2
    if least == 0 or (len(parts) == 1 and type(parts[0]) in (list, tuple)):
        parts = tuple(parts[0])
    if len(parts) < least:
        message = f"{call_site()}: split needs at least two branches; use through for one"
        raise FlowError(message)
    return Branches(tuple(run_each(x, parts)), tracer_of(x))


def tagged(x: Flow, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the flows that have the given tags.

    Raises:
        FlowError: no value has one of the tags yet.
    """
    tracer = tracer_of(x)
    unknown = [name for name in names if name not in tracer.tags]
    if unknown:
        known = ", ".join(f"`{name}`" for name in tracer.tags) or "none yet"
        message = (
            f"{call_site()}: no value is tagged `{'`, `'.join(unknown)}` before this line; "
            f"tags so far: {known}"
        )
        raise FlowError(message)
    return {name: tracer.tags[name][1] for name in names}


@final
class Using:
    """A flow with earlier tagged values in hand, for exactly one stage."""

    def __init__(self, x: Flow, values: dict[str, Any], named: dict[str, Any]) -> None:
        """Take the stream, the positional values by tag name, and the keyword values by parameter."""
        self._x = x
        self._values = values
        self._named = named

    def through(self, stage: Any, /, *extra: Any, **named: Any) -> Any:
        """Run a stage with the tagged values as extra arguments.

        A module with `forward_named(x, refs)` gets them as a dict by tag name.
        """
        if isinstance(stage, nn.Module) and "forward_named" in dir(type(stage)):
            refs = self._values | self._named
            tracer: Tracer = object.__getattribute__(self._x, "_tracer")
            return tracer.step(
                "method", "forward_named", (stage, self._x, refs),
                compute=lambda module, x, values: module.forward_named(x, values),
            )  # fmt: skip
        return self._x.through(stage, *self._values.values(), *extra, **self._named, **named)

    def merge(self, op: Any, *, last: bool = False) -> Any:
        """Merge the value and the tagged values: `x.using("skip").merge(Cat(dim=1))`.

        Args:
            op: as of `Branches.merge`.
            last: put the value behind the tagged values, not before them.

        Raises:
            FlowError: a tagged value was given by keyword, which a merge has no place for.
        """
        from flodl.vocabulary.branches import Branches

        if self._named:
            message = (
                f"{call_site()}: merge has no parameter `{', '.join(self._named)}`; "
                'give the names of tags without keywords: using("skip").merge(...)'
            )
            raise FlowError(message)
        tagged = tuple(self._values.values())
        values = (*tagged, self._x) if last else (self._x, *tagged)
        return Branches(values, tracer_of(self._x)).merge(op)

    def _value(self) -> Any:
        return self._x

    def also(self, stage: Any, /, *extra: Any, **named: Any) -> Flow:
        """Add the result of a stage that gets the tagged values: `x + stage(x, ...)`."""
        total: Flow = self._value() + self.through(stage, *extra, **named)
        return total


def short(value: Any) -> str:
    """Return a short text for a value: shape and dtype of a tensor, else its `repr`."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else type(value).__name__
