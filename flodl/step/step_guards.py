"""Step guards: assumptions of a captured step about model and optimizer, checked before every step."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, final

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flodl.step.recipe import Recipe

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_needs_grad = attrgetter("requires_grad")
_training = itemgetter("training")
_FULL_LOOK_EVERY = 64
# Kinds of attributes that a step has read as constants. An integer of a class of the user may as well be a
# note that each forward writes: the length of the last batch, a count of calls.
_KINDS: Final = (float, bool, str)
_KINDS_OF_TORCH: Final = (*_KINDS, int)


@final
class StepGuards:
    """Modes, frozen parameters, addresses, groups and hooks as they were when a step was captured."""

    def __init__(self, recipe: Recipe, trained: Sequence[Tensor]) -> None:
        self._recipe = recipe
        self._trained = trained
        groups = recipe.optimizer.param_groups
        self._homes = [vars(each) for each in recipe.model.modules()]
        self._modes = list(map(_training, self._homes))
        self._readers = list(_attribute_readers(recipe.model))
        self._attributes = self._read_attributes()
        self._all = [each for group in groups for each in group["params"]]
        self._needs = list(map(_needs_grad, self._all))
        self._addresses = list(map(Tensor.data_ptr, trained))
        self._counts = [len(group["params"]) for group in groups]
        # Every registration of a hook, anywhere, takes the next number.
        self._handles = RemovableHandle.next_id
        self._identity = self._look()
        self._calls = 0

    def _look(self) -> tuple[object, ...]:
        model = self._recipe.model
        held = [*model.parameters(), *model.buffers()]
        return (
            tuple(map(id, model.modules())),
            tuple((id(each), each.shape, each.data_ptr()) for each in held),
        )

    def _read_attributes(self) -> list[object]:
        return [read(home) for read, home in self._readers]

    def _attributes_changed(self) -> bool:
        try:
            return self._read_attributes() != self._attributes
        except (KeyError, RuntimeError, ValueError):  # deleted, or an array now
            return True

    def stale(self) -> str | None:
        """Return the change that breaks a guard; None if all is as it was."""
        if list(map(_training, self._homes)) != self._modes:
            return "training and evaluation modes changed"
        if self._attributes_changed():
            return "an attribute of a module changed"
        if list(map(_needs_grad, self._all)) != self._needs:
            return "parameters were frozen or thawed"
        if list(map(Tensor.data_ptr, self._trained)) != self._addresses:
            return "parameters moved"
        groups = self._recipe.optimizer.param_groups
        if [len(group["params"]) for group in groups] != self._counts:
            return "parameters were added to the optimizer"
        if RemovableHandle.next_id != self._handles:
            found = hooks_of(self._recipe)
            if found:
                return found
            self._handles = RemovableHandle.next_id
        self._calls += 1
        if self._calls % _FULL_LOOK_EVERY == 0 and self._look() != self._identity:
            return "modules, parameters or buffers were replaced"
        return None


def _attribute_readers(
    model: nn.Module,
) -> Iterator[tuple[Callable[[Mapping[str, object]], object], dict[str, object]]]:
    """Yield for each module what reads its plain attributes, such as `p` of a dropout, and their home."""
    for module in model.modules():
        of_torch = type(module).__module__.startswith("torch.nn.")
        kinds = _KINDS_OF_TORCH if of_torch else _KINDS
        home = vars(module)
        names = [name for name, value in home.items() if type(value) in kinds]
        names = [name for name in names if name not in ("training", "_is_full_backward_hook")]
        if names:
            yield itemgetter(*names), home


def hooks_of(recipe: Recipe) -> str | None:
    """Return where hooks are registered that a captured step would not run; nothing without hooks."""
    for path, module in recipe.model.named_modules():
        home = vars(module)
        if any(home[name] for name in _HOOKS):
            return f"a hook is registered on `{path or type(module).__name__}`"
    for name, each in recipe.model.named_parameters():
        if each._backward_hooks or each._post_accumulate_grad_hooks:
            return f"a hook is registered on the parameter `{name}`"
    home = vars(recipe.optimizer)
    if home["_optimizer_step_pre_hooks"] or home["_optimizer_step_post_hooks"]:
        return "a hook is registered on the optimizer"
    return None
