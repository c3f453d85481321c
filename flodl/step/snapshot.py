"""Snapshots of the attributes of a model, to see whether a forward changes any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Hashable

    from torch import nn

_PLAIN = (int, float, bool, str, type(None))
_REGISTERED = ("_parameters", "_buffers", "_modules")


def attributes_of(model: nn.Module) -> dict[str, Hashable]:
    """Return plain values and the identities of tensors, by path."""
    found: dict[str, Hashable] = {}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        for name, each in vars(module).items():
            if name in _REGISTERED:
                for inner, held in each.items():
                    found[f"{prefix}{inner}"] = id(held)
            else:
                found.update(_noted(f"{prefix}{name}", each))
    return found


def _noted(name: str, value: Any) -> dict[str, Hashable]:
    if isinstance(value, _PLAIN):
        return {name: value}
    if isinstance(value, Tensor):
        return {name: (id(value), value._version)}
    if isinstance(value, (list, tuple)):
        return {name: (len(value), *(id(each) for each in value if isinstance(each, Tensor)))}
    if isinstance(value, dict):
        return {name: (len(value), *(id(e) for e in value.values() if isinstance(e, Tensor)))}
    return {}
