"""Layer classes that accept the positional arguments of the Rust framework and make torch's layers.

    Conv2d(3, 64, 3, True, [1, 1], [1, 1], [1, 1], 1, Device.CPU)  # Conv2d::build of Rust: the bias is fourth
    nn.Conv2d(3, 64, 3, bias=True, stride=[1, 1], padding=[1, 1], ..., device="cpu")  # the layer that is made

The class of the result is `torch.nn.Conv2d` itself, so that all users of torch's layers (fx, Dynamo, the
generated code, checkpoints) knows it. Positions that torch reads in the same way are passed on as they are.
"""

from __future__ import annotations

import inspect
from typing import Any, Final, TypeAlias, final

import torch
from torch import nn

_Arguments: TypeAlias = "tuple[tuple[Any, ...], dict[str, Any]]"
_BUILD: Final = ("bias", "stride", "padding", "dilation", "groups", "device")
_BUILD_TRANSPOSED: Final = (*_BUILD[:3], "output_padding", *_BUILD[3:])


@final
class _TorchLayer(type):
    """Makes an object of torch's class, after `sort_arguments` changed the arguments.

    A class that a user derives from one of these names is an ordinary class.
    """

    def __call__(cls, *args: Any, **named: Any) -> Any:
        if not cls._is_name():
            return super().__call__(*args, **named)
        sort: Any = cls.sort_arguments  # type: ignore[attr-defined]  # each class of this file has it
        args, named = sort(args, named)
        return cls._torchs()(*args, **named)

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), cls)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls._is_name():
            return issubclass(subclass, cls._torchs())
        return super().__subclasscheck__(subclass)

    @property
    def __signature__(cls) -> inspect.Signature:
        if cls._is_name():
            return inspect.signature(cls._torchs())
        whole = inspect.signature(cls.__init__)  # of a class, not of an object
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def _is_name(cls) -> bool:
        return "sort_arguments" in vars(cls)

    def _torchs(cls) -> type:
        return cls.__mro__[1]


def _as_build(args: tuple[Any, ...], named: dict[str, Any], order: tuple[str, ...]) -> _Arguments:
    """Read arguments as those of `build` if the fourth, which is torch's stride, is a bool."""
    if len(args) < 4 or not isinstance(args[3], bool):
        return args, named
    if len(args) > 3 + len(order):
        raise TypeError(f"a convolution has at most {3 + len(order)} positions, got {len(args)}")
    return args[:3], {**dict(zip(order, args[3:], strict=False)), **named}


def _require_one_meaning(name: str, sizes: tuple[Any, ...]) -> None:
    """Refuse three lists whose order decides which layer is made.

    Raises:
        TypeError: the first and the last list differ.
    """
    if len(sizes) == 3 and all(isinstance(each, list) for each in sizes) and sizes[0] != sizes[2]:
        dilation, padding, stride = sizes
        raise TypeError(
            f"{name}: three lists by position are dilation, padding and stride in torch, and stride, "
            f"padding and dilation elsewhere; say which by name: dilation={dilation}, padding={padding}, "
            f"stride={stride}"
        )


class Conv1d(nn.Conv1d, metaclass=_TorchLayer):
    """`nn.Conv1d`; with a bool in fourth place, the arguments are those of `Conv1d::build` of Rust."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer."""
        return _as_build(args, named, _BUILD)


class Conv2d(nn.Conv2d, metaclass=_TorchLayer):
    """`nn.Conv2d`; with a bool in fourth place, the arguments are those of `Conv2d::build` of Rust."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer."""
        return _as_build(args, named, _BUILD)


class Conv3d(nn.Conv3d, metaclass=_TorchLayer):
    """`nn.Conv3d`; with a bool in fourth place, the arguments are those of `Conv3d::build` of Rust."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer."""
        return _as_build(args, named, _BUILD)


class ConvTranspose1d(nn.ConvTranspose1d, metaclass=_TorchLayer):
    """`nn.ConvTranspose1d`; with a bool in fourth place, the arguments are those of Rust's `build`."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer."""
        return _as_build(args, named, _BUILD_TRANSPOSED)


class ConvTranspose2d(nn.ConvTranspose2d, metaclass=_TorchLayer):
    """`nn.ConvTranspose2d`; with a bool in fourth place, the arguments are those of Rust's `build`."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer."""
        return _as_build(args, named, _BUILD_TRANSPOSED)


class ConvTranspose3d(nn.ConvTranspose3d, metaclass=_TorchLayer):
    """`nn.ConvTranspose3d`; with a bool in fourth place, the arguments are those of Rust's `build`."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer."""
        return _as_build(args, named, _BUILD_TRANSPOSED)


class AdaptiveMaxPool2d(nn.AdaptiveMaxPool2d, metaclass=_TorchLayer):
    """`nn.AdaptiveMaxPool2d`; two numbers are height and width, as in Rust."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer, whose second position is a bool."""
        if len(args) == 2 and isinstance(args[1], int) and not isinstance(args[1], bool):
            return (args,), named
        return args, named


class PReLU(nn.PReLU, metaclass=_TorchLayer):
    """`nn.PReLU`; a device in second place is the device, as in Rust."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer, whose second position is the first value."""
        if len(args) == 2 and isinstance(args[1], torch.device | str):
            return args[:1], {**named, "device": args[1]}
        return args, named


class Unfold(nn.Unfold, metaclass=_TorchLayer):
    """`nn.Unfold`; three lists by position are refused where their order matters."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer.

        Raises:
            TypeError: lists for dilation and stride differ and have no names.
        """
        _require_one_meaning("Unfold", args[1:])
        return args, named


class Fold(nn.Fold, metaclass=_TorchLayer):
    """`nn.Fold`; three lists by position are refused where their order matters."""

    @staticmethod
    def sort_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> _Arguments:
        """Return the arguments for torch's layer.

        Raises:
            TypeError: lists for dilation and stride differ and have no names.
        """
        _require_one_meaning("Fold", args[2:])
        return args, named
