"""The base of the classes that offer methods on a module."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


class AbstractViewer:
    """Methods on a module that is looked at: the module of a view, or a graph itself."""

    @property
    @abstractmethod
    def _viewed(self) -> nn.Module:
        """The module that the methods work on."""
