"""Tags of a plain torch module: the dotted paths of its submodules, whose outputs hooks keep.

Hooks are objects that pickle.  A copy of an observed model is observed too, and has kept nothing yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import torch
from torch import fx
from torch.utils import _pytree as pytree

from flodl.errors import GraphError
from flodl.observe.metrics import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

_KEY = "_flodl_tags"


@final
class _Kept:
    """The outputs of the last forward, by path: copies and pickles of the model have none."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Kept:
        del memo
        return _Kept()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Kept, ())


@final
class _Keep:
    """The hook of an observed submodule."""

    def __init__(self, kept: _Kept, path: str) -> None:
        self.kept = kept
        self.path = path

    def __call__(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        # Tracers run with values that are none.
        if not torch.compiler.is_exporting() and not isinstance(output, fx.Proxy):
            self.kept.values[self.path] = _copied(output)


@final
class _Forget:
    """The hook of the model: a forward starts without the values of the one before."""

    def __init__(self, kept: _Kept) -> None:
        self.kept = kept

    def __call__(self, _module: nn.Module, _inputs: Any) -> None:
        if not torch.compiler.is_exporting():
            self.kept.values.clear()


def observe(module: nn.Module, paths: Iterable[str]) -> None:
    """Keep the outputs of these submodules from now on, and of no others.

    Args:
        module: a plain module.
        paths: dotted paths of its submodules.

    Raises:
        UnknownNameError: there is no such submodule; nothing has changed then.
        GraphError: a submodule was compiled to TorchScript, which takes no hooks.
    """
    parts = {path: submodule_at(module, path) for path in paths}
    for path, part in parts.items():
        if isinstance(part, torch.jit.ScriptModule):
            message = (
                f"`{path}` is a ScriptModule, which takes no hooks: observe what is around it"
            )
            raise GraphError(message)
    kept: _Kept = vars(module).setdefault(_KEY, _Kept())
    kept.values.clear()
    for each in module.modules():
        remove_hooks(each, lambda hook: isinstance(hook, _Keep | _Forget) and hook.kept is kept)
    if parts:
        module.register_forward_pre_hook(_Forget(kept))
    for path, part in parts.items():
        part.register_forward_hook(_Keep(kept, path))


def tagged(module: nn.Module, path: str) -> Any:
    """Return what a submodule gave in the last forward, without its autograd graph.

    Args:
        module: a plain module.
        path: the dotted path of an observed submodule.

    Returns:
        The value; `None` if the last forward has not called the submodule.

    Raises:
        UnknownNameError: there is no such submodule.
        GraphError: the submodule is not observed.
    """
    kept: _Kept | None = vars(module).get(_KEY)
    hooks = vars(submodule_at(module, path)).get("_forward_hooks", {}).values()
    if not any(isinstance(each, _Keep) and each.kept is kept for each in hooks):
        message = (
            f"the output of `{path}` is not kept: {type(module).__name__} is a plain module, so call "
            f'observe_tags("{path}") before the forward'
        )
        raise GraphError(message)
    return values_of(module).get(path)


def values_of(module: nn.Module) -> dict[str, Any]:
    """Return the outputs that were kept in the last forward, by path.

    Args:
        module: a plain module.
    """
    kept: _Kept = vars(module).get(_KEY, _Kept())
    return kept.values


def submodule_at(module: nn.Module, path: str) -> nn.Module:
    """Return the submodule at a dotted path.

    Args:
        module: a plain module.
        path: names joined by dots.

    Raises:
        UnknownNameError: there is no such submodule.
    """
    here: nn.Module | None = module
    for name in path.split("."):
        here = here._modules.get(name) if here is not None else None
    if here is None:
        raise unknown("submodule", path, [name for name, _ in module.named_modules() if name])
    return here


def existing(module: nn.Module, paths: Iterable[str]) -> tuple[str, ...]:
    """Return dotted paths, each of which must lead to a submodule.

    Args:
        module: a plain module.
        paths: names joined by dots.

    Raises:
        UnknownNameError: there is no such submodule.
    """
    found = tuple(paths)
    for path in found:
        submodule_at(module, path)
    return found


def remove_hooks(module: nn.Module, wanted: Any) -> None:
    """Remove those forward hooks and pre-hooks of one module for which a predicate is true.

    Args:
        module: any module.
        wanted: the predicate, called with each hook.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key in [key for key, hook in hooks.items() if wanted(hook)]:
            del hooks[key]


def _copied(value: Any) -> Any:
    """Return a value with copies of its tensors, because later steps may work in place."""
    return pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), value)
