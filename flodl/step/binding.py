"""All tensors that a step reads and writes, in one fixed order, and what must stay true about them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn, optim

from flodl.nn.parameters import in_model_order
from flodl.step.refusal import RefusedStepError
from flodl.step.rules import Clock, Flags, rule_of
from flodl.step.step_guards import StepGuards

if TYPE_CHECKING:
    from flodl.step.recipe import Recipe

# Counters live outside the captured arithmetic: Python needs their values.
_COUNTERS = frozenset({"step", "mu_product"})


@final
@dataclass(slots=True)
class Cohort:
    """Parameters of one group that have made the same number of steps."""

    group: int
    members: tuple[int, ...]
    clock: Clock
    counters: tuple[Tensor, ...]


@final
class Binding:
    """The tensors of one recipe: `trained`, `others`, optimizer state and averages.

    Attributes:
        trained: parameters that get gradients and are updated.
        model_order: their numbers in the order of the model, in which their norms are added.
        flat: everything a captured step takes before its numbers and the batch.
        used: those of them, the first ones, that forward and backward use.
        aliases: `flat`, the same memory without autograd.
    """

    def __init__(self, recipe: Recipe, layout: tuple[tuple[int, int], ...] | None = None) -> None:
        """Collect the tensors of a recipe whose optimizer has made at least one step.

        Raises:
            RefusedStepError: something about model or optimizer does not allow a fixed list.
        """
        self.recipe = recipe
        self.rule = rule_of(recipe.optimizer)
        groups = recipe.optimizer.param_groups
        self.layout = layout or tuple(
            (index, place)
            for index, group in enumerate(groups)
            for place, each in enumerate(group["params"])
            if each.requires_grad and each.grad is not None
        )
        self.trained: list[Tensor] = [groups[g]["params"][p] for g, p in self.layout]
        place = {id(each): number for number, each in enumerate(self.trained)}
        self.model_order = [place[id(each)] for each in in_model_order(recipe.model, self.trained)]
        self.names = self._names()
        self.others = self._others()
        self.cohorts = self._cohorts()
        self.states = [self._state(each) for each in self.trained]
        averages = recipe.ema.pairs()[0] if recipe.ema is not None else []
        held = [each for state in self.states for each in state.values()]
        self.flat = [*self.trained, *self.others, *held, *averages]
        _refuse_shared_memory(self.flat)
        self.used = [*self.trained, *self.others]
        self.aliases = [each.detach() for each in self.flat]
        self._outdated = False
        self._step_guards = StepGuards(recipe, self.trained)

    # ---- collecting ---------------------------------------------------------------------------

    def _names(self) -> dict[int, str]:
        known = {id(each): name for name, each in self.recipe.model.named_parameters()}
        if not self.trained:
            raise RefusedStepError("no parameter of the optimizer gets a gradient")
        if any(id(each) not in known for each in self.trained):
            raise RefusedStepError("the optimizer holds parameters that the model does not have")
        return known

    def _others(self) -> list[Tensor]:
        trained = {id(each) for each in self.trained}
        held = [*self.recipe.model.parameters(), *self.recipe.model.buffers()]
        unique = {id(each): each for each in held}
        return [each for key, each in unique.items() if key not in trained]

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        found = self.recipe.optimizer.state.get(parameter, {})
        return {
            name: each
            for name, each in found.items()
            if name not in _COUNTERS and isinstance(each, Tensor)
        }

    def _cohorts(self) -> list[Cohort]:
        optimizer = self.recipe.optimizer
        gathered: dict[tuple[int, float], list[int]] = {}
        for index, (group, _) in enumerate(self.layout):
            step = optimizer.state.get(self.trained[index], {}).get("step", 0.0)
            gathered.setdefault((group, float(step)), []).append(index)
        return [self._cohort(group, step, m) for (group, step), m in gathered.items()]

    def _cohort(self, group: int, step: float, members: list[int]) -> Cohort:
        states = [self.recipe.optimizer.state.get(self.trained[m], {}) for m in members]
        counters = []
        clock = Clock(step)
        for name in ("step", "mu_product"):
            first = states[0].get(name)
            if not isinstance(first, Tensor):
                continue
            # One vector, and a view of it in every state: advanced by one operation.
            joined = torch.stack([state[name].detach() for state in states])
            for state, each in zip(states, joined.unbind(), strict=True):
                state[name] = each
            counters.append(joined)
            if name == "mu_product":
                clock.product = float(first)
        return Cohort(group, tuple(members), clock, tuple(counters))

    # ---- the numbers of a step ----------------------------------------------------------------

    def numbers(self) -> tuple[list[float], Flags]:
        """Advance the counters; return the numbers of this step and what the arithmetic assumes."""
        values: list[float] = []
        flags: list[Any] = []
        groups = self.recipe.optimizer.param_groups
        for cohort in self.cohorts:
            clock = cohort.clock
            clock.step += 1.0
            assumed, fresh = self.rule.host(groups[cohort.group], clock)
            values.extend(fresh)
            flags.append(assumed)
        return values, tuple(flags)

    def advance(self) -> None:
        """Write the advanced counters into the optimizer's state."""
        for cohort in self.cohorts:
            clock = cohort.clock
            for number, counter in enumerate(cohort.counters):
                if number == 0:
                    counter.add_(1.0)
                else:
                    counter.mul_(clock.factor)
                    clock.product *= clock.factor

    def stepped_outside(self) -> None:
        """Note that the optimizer has made a step by itself, which moved its counters."""
        self._outdated = True

    def _refresh(self) -> bool:
        """Read the counters again; return whether the members of each cohort are still together."""
        self._outdated = False
        for cohort in self.cohorts:
            for number, counter in enumerate(cohort.counters):
                values = counter.tolist()
                if number == 0 and len(set(values)) != 1:
                    return False
                if number == 0:
                    cohort.clock.step = values[0]
                else:
                    cohort.clock.product = values[0]
        return True

    def stale(self) -> str | None:
        """Return why the tensors or modes are no longer what was bound; nothing if they are."""
        if self._outdated and not self._refresh():
            return "not all parameters were updated"
        return self._step_guards.stale()

    def take_back(self) -> None:
        """Undo `numbers()` when the step was not made."""
        for cohort in self.cohorts:
            cohort.clock.step -= 1.0


def has_state(optimizer: optim.Optimizer) -> bool:
    """Return True if an optimizer has made its first update, where it keeps anything from one to the next."""
    for group in optimizer.param_groups:
        if isinstance(optimizer, optim.SGD) and not group["momentum"]:
            continue
        if not all(optimizer.state.get(p) for p in group["params"] if p.grad is not None):
            return False
    return True


def _refuse_shared_memory(tensors: list[Tensor]) -> None:
    seen: set[int] = set()
    for each in tensors:
        if each.layout != torch.strided:
            raise RefusedStepError("a parameter or buffer is sparse")
        address = each.untyped_storage().data_ptr()
        if address in seen and each.numel():
            raise RefusedStepError("parameters or buffers share memory")
        seen.add(address)


def twin(recipe: Recipe) -> Recipe:
    """Return a recipe on copies of model, optimizer and averages; plain tensors stay shared.

    Raises:
        RefusedStepError: they cannot be copied.
    """
    memo: dict[int, Any] = {}
    for module in recipe.model.modules():
        for each in vars(module).values():
            if isinstance(each, Tensor):
                memo[id(each)] = each
    try:
        model = copy.deepcopy(recipe.model, memo)
        optimizer = copy.deepcopy(recipe.optimizer, memo)
        ema = copy.deepcopy(recipe.ema, memo)
    except (TypeError, RuntimeError, AttributeError, ValueError) as error:
        raise RefusedStepError(f"the model cannot be copied: {error}") from error
    assert isinstance(model, nn.Module)
    return replace(recipe, model=model, optimizer=optimizer, ema=ema)
