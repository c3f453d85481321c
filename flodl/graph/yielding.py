"""Classes whose methods never take a name away from a user's module.

A submodule, parameter or buffer called `profile` is found under that name, although a graph has a method
`profile`: the class of the user's module gives the method's name away when the member is set.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import nn


class YieldingNamesMixin(nn.Module):
    """A module class whose own methods make way for members of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a module, parameter or buffer takes the name of a method of this class."""
        if isinstance(value, nn.Module) and _is_shared(self, name):
            self.add_module(name, value)
            return
        if isinstance(value, (nn.Module, torch.Tensor)):
            _give_away(self, name)
        super().__setattr__(name, value)

    def register_buffer(
        self,
        name: str,
        tensor: torch.Tensor | None,
        persistent: bool = True,
    ) -> None:
        """Register a buffer, as in torch."""
        _give_away(self, name)
        super().register_buffer(name, tensor, persistent)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register a parameter, as in torch."""
        _give_away(self, name)
        super().register_parameter(name, param)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Register a submodule, as in torch."""
        if _is_shared(self, name):
            # A graph from a builder names modules after tags, and its class is that of all others.
            self._modules[name] = module
            vars(self)[name] = module
            return
        _give_away(self, name)
        super().add_module(name, module)


@final
class _Member:
    """A name that a user's class took: it means the submodule, parameter or buffer."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: nn.Module | None, owner: type) -> Any:
        if instance is None:
            return self
        # Raises AttributeError where the instance has none.
        return nn.Module.__getattr__(instance, self._name)


def _is_own(owner: type, name: str) -> bool:
    """Return True if a name is that of a method which graphs have over torch's modules."""
    home = next((each for each in owner.__mro__ if name in vars(each)), None)
    if home is None or name == "forward" or name in vars(nn.Module):
        return False
    if not home.__module__.startswith(("flodl.graph.", "flodl.module.", "flodl.builder.")):
        return False
    value = vars(home)[name]
    # A computed text such as `code` is no method; it has a reader and no setter.
    return callable(value) or ("__get__" in dir(value) and "__set__" not in dir(value))


def _is_shared(module: nn.Module, name: str) -> bool:
    return _is_own(type(module), name) and type(module).__module__.startswith("flodl.")


def _give_away(module: nn.Module, name: str) -> None:
    if _is_own(type(module), name) and not _is_shared(module, name):
        setattr(type(module), name, _Member(name))
