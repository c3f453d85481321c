"""Changes of the parts of a model: exchanged layers, adapters, longer and shorter lists, hooks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from benchmarks.world_mutation.changes import (
    Found,
    exchange,
    firsts,
    on,
    one_of_each_kind,
    put,
    put_submodule,
    scaled,
    submodule,
)
from benchmarks.world_mutation.families import noise
from benchmarks.world_mutation.side import Side


class Adapter(nn.Module):
    """A low-rank addition around a layer, as PEFT injects it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.down = nn.Parameter(noise(3, base.in_features) * 0.1)
        self.up = nn.Parameter(noise(base.out_features, 3) * 0.1)

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        found: torch.Tensor = self.base_layer(x, *args, **kwargs) + x @ self.down.T @ self.up.T
        return found

    @property
    def weight(self) -> torch.Tensor:
        return self.base_layer.weight

    @property
    def bias(self) -> torch.Tensor:
        return self.base_layer.bias


def parts(side: Side) -> Found:
    """Return changes of single layers."""
    model = side.model
    for path in firsts(model, lambda m: type(m) is nn.Linear, 2):
        yield f"linear {path} exchanged", exchange(path, _linear_like)
        yield f"adapter around {path}", exchange(path, Adapter)
        yield f"{path} with weight norm", on(path, parametrizations.weight_norm)
        yield f"{path} pruned", on(path, lambda m: prune.l1_unstructured(m, "weight", 0.3))
        yield f"{path} parametrized and back", _parametrized_and_back(path)
    yield "adapters around all linears", _all_adapted
    for path in firsts(model, lambda m: isinstance(m, (nn.LayerNorm, nn.BatchNorm2d))):
        yield f"norm {path} left out", exchange(path, lambda _: nn.Identity())
        yield f"eps of {path}", put(path, "eps", 0.1)
    for path in firsts(model, lambda m: isinstance(m, nn.Dropout), 2):
        yield f"dropout {path} stronger", put(path, "p", 0.7)
        yield f"dropout {path} left out", exchange(path, lambda _: nn.Identity())
    for path in firsts(model, _is_activation):
        yield f"activation {path} exchanged", exchange(path, lambda _: nn.Tanh())
    for path in firsts(model, lambda m: isinstance(m, nn.Embedding)):
        yield f"embedding {path} exchanged", exchange(path, _embedding_like)
    for path, module in one_of_each_kind(model, side.home.__name__):
        if path:
            yield f"{type(module).__name__} {path} copied deeply", exchange(path, copy.deepcopy)
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and not name.startswith("_"):
                yield f"function {path}.{name} exchanged", put(path, name, torch.tanh)


def _is_activation(module: nn.Module) -> bool:
    return "activation" in type(module).__module__ and not list(module.children())


def _linear_like(old: nn.Linear) -> nn.Linear:
    made = nn.Linear(old.in_features, old.out_features, old.bias is not None)
    with torch.no_grad():
        made.weight.copy_(noise(*made.weight.shape) * 0.1)
        if made.bias is not None:
            made.bias.fill_(0.1)
    return made


def _embedding_like(old: nn.Embedding) -> nn.Embedding:
    made = nn.Embedding(old.num_embeddings + 2, old.embedding_dim, padding_idx=old.padding_idx)
    with torch.no_grad():
        made.weight.copy_(noise(*made.weight.shape) * 0.1)
    return made


def _parametrized_and_back(path: str) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        module = parametrizations.weight_norm(submodule(side, path))
        side.model(**side.arguments())
        parametrize.remove_parametrizations(module, "weight")

    return apply


def _all_adapted(side: Side) -> None:
    for path, module in list(side.model.named_modules()):
        if type(module) is nn.Linear:
            put_submodule(side, path, Adapter(module))


# ---- lists --------------------------------------------------------------------------------------------


def lists(side: Side) -> Found:
    """Return changes of lists and dicts of layers."""
    for path in firsts(side.model, lambda m: isinstance(m, nn.ModuleList), 3):
        yield f"{path} shorter", on(path, lambda m: m.__delitem__(-1))
        yield f"{path} longer", on(path, lambda m: m.append(copy.deepcopy(m[-1])))
        yield f"{path} reversed", exchange(path, lambda m: nn.ModuleList([*m][::-1]))
        yield f"{path} cut", exchange(path, lambda m: m[:1])
        yield f"{path} doubled", on(path, lambda m: m.extend([*m]))
        yield f"first of {path} inserted again", on(path, lambda m: m.insert(0, m[0]))
    for path in firsts(side.model, lambda m: type(m) is nn.Sequential, 2):
        yield f"{path} with one layer more", on(path, lambda m: m.append(nn.Tanh()))
        yield f"{path} shorter", on(path, lambda m: m.__delitem__(-1))
    for path in firsts(side.model, lambda m: isinstance(m, nn.ModuleDict), 2):
        yield f"{path} shorter", on(path, lambda m: m.pop(next(iter(m))))


# ---- hooks --------------------------------------------------------------------------------------------


def hooks(side: Side) -> Found:
    """Return hooks on the model, on some of its parts and on all."""
    model = side.model
    places = ["", *(path for path, _ in one_of_each_kind(model, side.home.__name__)[1:7])]
    places += firsts(model, lambda m: type(m) is nn.Linear)
    places += firsts(model, lambda m: isinstance(m, (nn.ModuleList, nn.Sequential)), 2)
    for path in dict.fromkeys(places):
        shown = path or "the model"
        yield f"forward hook on {shown}", _hooked(path, "register_forward_hook", _note)
        yield (
            f"forward hook on {shown} that scales",
            _hooked(path, "register_forward_hook", _scale),
        )
        yield f"pre-hook on {shown}", _hooked(path, "register_forward_pre_hook", _note)
        yield f"backward hook on {shown}", _hooked(path, "register_full_backward_hook", _note)
    yield "hooks with keywords", _keyword_hooks
    yield "hooks on all modules", _all_hooked
    yield "hooks on all modules, removed", _hooked_and_removed
    yield "a global hook", _global_hook


def _note(log: list[Any], name: str) -> Callable[..., None]:
    def hook(module: nn.Module, *values: Any) -> None:
        shapes = [tuple(v.shape) for v in values[0] if isinstance(v, torch.Tensor)]
        log.append((name, type(module).__name__, shapes))

    return hook


def _scale(log: list[Any], name: str) -> Callable[..., Any]:
    def hook(module: nn.Module, _: Any, output: Any) -> Any:
        log.append((name, type(module).__name__))
        return scaled(output)

    return hook


def _hooked(path: str, method: str, make: Callable[..., Any]) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        getattr(submodule(side, path), method)(make(side.log, f"{method} {path}"))

    return apply


def _keyword_hooks(side: Side) -> None:
    for path, module in side.model.named_modules():
        if type(module).__module__ == side.home.__name__:

            def hook(_: nn.Module, args: Any, kwargs: Any, p: str = path) -> None:
                side.log.append((p, len(args), sorted(kwargs)))

            module.register_forward_pre_hook(hook, with_kwargs=True)


def _all_hooked(side: Side) -> list[Any]:
    handles: list[Any] = []
    for path, module in side.model.named_modules():
        handles.append(module.register_forward_pre_hook(_note(side.log, f"before {path}")))
        handles.append(module.register_forward_hook(_note(side.log, f"after {path}")))
    return handles


def _hooked_and_removed(side: Side) -> None:
    handles = _all_hooked(side)
    side.model.eval()(**side.arguments())
    for handle in handles:
        handle.remove()


def _global_hook(side: Side) -> None:
    # It hears both sides; each notes its own modules.
    mine = {id(each) for each in side.model.modules()}

    def hook(module: nn.Module, *_: Any) -> None:
        if id(module) in mine:
            side.log.append(type(module).__name__)

    nn.modules.module.register_module_forward_hook(hook)
