"""One test case: original and candidate side by side, in the seven checks of `spec/porting.md` 17.

A candidate is one artifact made from the original: our port, a `torch.fx` graph, or (as the only
way it can follow the training mode) two programs of `torch.export`, one per mode.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    Arguments = tuple[Any, dict[str, Any]]
    Make = Callable[[bool], Arguments]
    New = Callable[[], nn.Module]

CHECKS = ("eval", "batch", "train", "grads", "state_dict", "initial", "buffers")
BUILD_SEED, INPUT_SEED, CALL_SEED = 0, 3, 1


class DifferenceError(Exception):
    """Original and candidate are not the same; says in what."""


class UnusableError(Exception):
    """The original does not run, or does not repeat itself; says why."""


def seed_all(seed: int) -> None:
    """Seed every generator that user code may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def build(module: ModuleType, index: int) -> Any:
    """Construct the model of a test case under the fixed seed."""
    cls, arguments = module.TESTCASES[index][:2]
    seed_all(BUILD_SEED)
    args, kwargs = arguments()
    return cls(*args, **kwargs)


def inputs(module: ModuleType, index: int, *, doubled: bool = False) -> Any:
    """Make the inputs of a test case anew."""
    seed_all(INPUT_SEED)
    args, kwargs = module.TESTCASES[index][2]()
    if doubled:
        args, kwargs = pytree.tree_map(_double, (args, kwargs))
    return args, kwargs


def call(model: nn.Module, arguments: Arguments, seed: int = CALL_SEED) -> Any:
    """Call a model under a seed."""
    seed_all(seed)
    args, kwargs = arguments
    return model(*args, **kwargs)


def _double(item: Any) -> Any:
    return torch.cat([item, item]) if isinstance(item, torch.Tensor) and item.dim() else item


def frozen(value: object, depth: int = 0) -> Any:
    """Copy a result: tensors are cloned, containers and objects walked, the rest by its text."""
    if isinstance(value, torch.Tensor):
        return _frozen_tensor(value)
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(frozen(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return type(value).__name__, tuple(
            (str(k), frozen(v, depth + 1)) for k, v in value.items()
        )
    if isinstance(value, bool | int | float | str | type(None)):
        return repr(value)
    fields = getattr(value, "__dict__", None)
    if fields and depth < 4 and not isinstance(value, nn.Module | type):
        return type(value).__name__, frozen(dict(fields), depth + 1)
    return type(value).__name__


def _frozen_tensor(value: object) -> Any:
    plain = value.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    return plain.clone()


def same(first: object, second: object) -> Any:
    """Compare what `frozen` made, bit by bit; NaN is equal to itself."""
    if isinstance(first, torch.Tensor):
        return (
            isinstance(second, torch.Tensor)
            and first.dtype == second.dtype
            and first.shape == second.shape
            and bool(torch.equal(_comparable(first), _comparable(second)))
        )
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


def _comparable(tensor: torch.Tensor) -> Any:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return torch.nan_to_num(real, nan=1e30) if real.is_floating_point() else real


def tensors(value: object) -> Any:
    """Return the tensors of a result, those in objects included."""
    found = []

    def visit(item: Any, depth: int) -> None:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, list | tuple):
            for each in item:
                visit(each, depth)
        elif isinstance(item, dict):
            for each in item.values():
                visit(each, depth)
        elif depth and not isinstance(item, nn.Module | type):
            for each in getattr(item, "__dict__", {}).values():
                visit(each, depth - 1)

    visit(value, 3)
    return found


def loss_of(output: object) -> Any:
    """Weigh every differentiable output and add all up; None without any."""
    total = None
    for number, item in enumerate(tensors(output)):
        if not item.requires_grad or not item.numel():
            continue
        dense = item.to_dense() if item.layout is not torch.strided else item
        real = torch.view_as_real(dense) if dense.is_complex() else dense
        generator = torch.Generator().manual_seed(number)
        part = (real * torch.randn(real.shape, generator=generator).to(real.dtype)).sum()
        total = part if total is None else total + part.to(total.dtype)
    return total


def gradients(model: nn.Module) -> Any:
    """Return the gradient of every parameter by name; a missing one is a value, too."""
    return frozen({name: item.grad for name, item in model.named_parameters()})


def descend(model: nn.Module) -> None:
    """Take one step of gradient descent."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.01)


def state(model: nn.Module) -> Any:
    """Return all parameters and buffers."""
    return frozen(dict(model.named_parameters())), frozen(dict(model.named_buffers()))


def eval_run(model: nn.Module, make: Make) -> Any:
    """Three calls with the inputs of the case: the later ones may take another way."""
    model.eval()
    return [frozen(call(model, make(False))) for _ in range(3)]


def batch_run(model: nn.Module, make: Make) -> Any:
    """Double the batch, then call with the first inputs again."""
    model.eval()
    doubled = frozen(call(model, make(True)))
    return [doubled, frozen(call(model, make(False)))]


def train_run(model: nn.Module, make: Make) -> Any:
    """Two calls in training mode, a step of descent between them; returns what each check sees."""
    model.train()
    seen = {"train": [], "grads": [], "buffers": []}
    for step in range(2):
        model.zero_grad(set_to_none=True)
        output = call(model, make(False), CALL_SEED + step)
        seen["train"].append(frozen(output))
        seen["buffers"].append(frozen(dict(model.named_buffers())))
        loss = loss_of(output)
        if loss is None:
            continue
        loss.backward()
        seen["grads"].append(gradients(model))
        descend(model)
    seen["buffers"].append(state(model))
    return seen


def attempt(function: Any, *arguments: Arguments) -> Any:
    """Return a result, or the exception that came instead."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


class Case:
    """The original of a test case, with the results that every candidate has to show."""

    def __init__(self, module: ModuleType, index: int) -> None:
        self.module, self.index = module, index
        try:
            first, second = build(module, index), build(module, index)
            self.frozen_build = state(first)
            self.keys = list(first.state_dict())
            self.parameters = [name for name, _ in first.named_parameters()]
            results = [eval_run(model, self.make) for model in (first, second)]
        except Exception as error:
            raise UnusableError(f"original: {describe(error)}") from error
        if not same(tuple(results[0]), tuple(results[1])):
            raise UnusableError("not deterministic")
        self.eval = results[0]
        self.batch, self.batch_error = attempt(batch_run, first, self.make)
        fresh, self.train_error = attempt(train_run, self.new(), self.make)
        again, _ = attempt(train_run, self.new(), self.make)
        self.train = fresh
        if fresh is not None and not (again and all(equal(fresh[k], again[k]) for k in fresh)):
            raise UnusableError("not deterministic")

    def new(self) -> Any:
        """Return the original, constructed anew."""
        return build(self.module, self.index)

    def make(self, doubled: bool) -> Any:
        """Return new inputs."""
        return inputs(self.module, self.index, doubled=doubled)


def equal(first: object, second: object) -> Any:
    """Compare two lists of frozen results."""
    return same(tuple(first), tuple(second))


def judge(case: Any, for_eval: New, for_train: New, make: Make, initial: bool = True) -> Any:
    """Run all checks on a candidate.

    Args:
        case: the original's results.
        for_eval: makes the candidate for evaluation.
        for_train: makes it for training.
        make: makes the candidate's inputs.
        initial: whether the candidate is constructed, so that its initial weights mean something.

    Returns:
        Per check "ok", "na" (the original itself refuses) or what is wrong.
    """
    results = dict.fromkeys(CHECKS, "na")
    model, error = attempt(for_eval)
    if error is not None:
        return {**results, "eval": f"make: {describe(error)}"}
    results["initial"] = outcome(_initial, case, model) if initial else "na"
    results["state_dict"] = outcome(_state_dict, case, model)
    results["eval"] = outcome(_compare, case.eval, eval_run, model, make)
    if case.batch is not None:
        results["batch"] = outcome(_compare, case.batch, batch_run, model, make)
    if case.train is None:
        return results
    trained, error = attempt(lambda: train_run(for_train(), make))
    for key in ("train", "grads", "buffers"):
        if error is not None:
            results[key] = f"raises {describe(error)}" if key == "train" else "na"
        else:
            results[key] = "ok" if equal(case.train[key], trained[key]) else "differs"
    return results


def outcome(check: Callable[..., None], *arguments: Arguments) -> Any:
    """Return "ok", or what went wrong in a check."""
    try:
        check(*arguments)
    except DifferenceError as difference:
        return f"differs {difference}".strip()
    except Exception as error:
        return f"raises {describe(error)}"
    return "ok"


def _compare(
    expected: list[object], run: Callable[..., list[object]], model: nn.Module, make: Make
) -> None:
    if not equal(expected, run(model, make)):
        raise DifferenceError


def _initial(case: Any, model: nn.Module) -> None:
    if [name for name, _ in model.named_parameters()] != case.parameters:
        raise DifferenceError("in the order of parameters")
    if not same(state(model), case.frozen_build):
        raise DifferenceError("in initial weights")


def _state_dict(case: Any, model: nn.Module) -> None:
    if list(model.state_dict()) != case.keys:
        raise DifferenceError("in keys")
    original = case.new()
    before = copy.deepcopy(model.state_dict())
    model.load_state_dict(original.state_dict(), strict=True)
    original.load_state_dict(model.state_dict(), strict=True)
    model.load_state_dict(before, strict=True)


def describe(error: BaseException) -> Any:
    """Return an exception in one short line, with the last place of it."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
        place = f" @{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:240]}{place}"


def judge_ours(case: Any, ported: ModuleType) -> Any:
    """Judge our port: one artifact for both modes."""

    def new() -> Any:
        return build(ported, case.index)

    results = judge(case, new, new, lambda d: inputs(ported, case.index, doubled=d))
    model, error = attempt(new)
    return results, {} if error is not None else _kinds(model, ported.__name__)


def _kinds(model: nn.Module, name: str) -> Any:
    """Return whether the class, and every user module in it, is a flow."""
    from flodl import FlowModule

    own = [m for m in model.modules() if type(m).__module__ == name and "forward" in dir(type(m))]
    kept = {type(m).__name__ for m in own if not isinstance(m, FlowModule) and _computes(m)}
    return {"flow": isinstance(model, FlowModule), "kept_inside": sorted(kept)}


def _computes(module: ModuleType) -> Any:
    """Say whether a forward stands in the user's own class, and not in a layer it extends."""
    owner = next(c for c in type(module).__mro__ if "forward" in vars(c))
    return not owner.__module__.startswith("torch.")
