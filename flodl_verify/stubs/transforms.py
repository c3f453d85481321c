"""The transforms of torchvision that scripts use, on images of this package: good for shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, final

import torch

from flodl_verify.stubs.anything import make_module
from flodl_verify.stubs.datasets import Image

Step = Callable[[Any], Any]


@final
class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Step]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        """Apply all."""
        for step in self.transforms:
            image = step(image)
        return image


def to_tensor(image: Any) -> torch.Tensor:
    """Return pixels as floats between 0 and 1, channels first."""
    pixels = image.pixels if isinstance(image, Image) else torch.as_tensor(image)
    if pixels.dim() == 2:
        pixels = pixels[..., None]
    return pixels.permute(2, 0, 1).contiguous().float() / 255


def normalize(tensor: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """Shift and scale each channel."""
    shape = (-1, 1, 1)
    return (tensor - torch.tensor(mean).view(shape)) / torch.tensor(std).view(shape)


def resize(image: Any, size: int | Sequence[int]) -> Any:
    """Resize to a size; a single number is the shorter side."""
    width, height = _size_of(image)
    if isinstance(size, int):
        short = min(width, height)
        wanted = (max(1, width * size // short), max(1, height * size // short))
    else:
        wanted = (size[-1], size[0])
    return _at(image, torch.arange(wanted[1]) * height // wanted[1],
               torch.arange(wanted[0]) * width // wanted[0])  # fmt: skip


def crop(image: Any, size: int | Sequence[int], padding: int = 0, *, random: bool = False) -> Any:
    """Cut out a window, from the middle or anywhere."""
    width, height = _size_of(image)
    tall, wide = (size, size) if isinstance(size, int) else (size[0], size[-1])
    top, left = (height + 2 * padding - tall) // 2, (width + 2 * padding - wide) // 2
    if random:
        top = int(torch.randint(0, max(1, 2 * top + 1), ()))
        left = int(torch.randint(0, max(1, 2 * left + 1), ()))
    rows = (torch.arange(tall) + top - padding).clamp(0, height - 1)
    columns = (torch.arange(wide) + left - padding).clamp(0, width - 1)
    return _at(image, rows, columns)


def flip(image: Any, probability: float) -> Any:
    """Mirror at random."""
    width, height = _size_of(image)
    if float(torch.rand(())) >= probability:
        return image
    return _at(image, torch.arange(height), torch.arange(width).flip(0))


def make_transforms_module() -> ModuleType:
    """Return the stand-in for `torchvision.transforms`."""
    module = make_module("torchvision.transforms")
    known: dict[str, Any] = {
        "Compose": Compose,
        "ToTensor": lambda: to_tensor,
        "PILToTensor": lambda: lambda image: (to_tensor(image) * 255).to(torch.uint8),
        "Normalize": lambda mean, std, *_, **__: lambda x: normalize(x, mean, std),
        "Lambda": lambda function: function,
        "CenterCrop": lambda size: lambda image: crop(image, size),
        "RandomCrop": lambda size, padding=0, **_: (
            lambda image: crop(image, size, padding or 0, random=True)
        ),
        "RandomHorizontalFlip": lambda p=0.5: lambda image: flip(image, p),
        "Grayscale": lambda num_output_channels=1: (
            lambda image: image.convert("L" if num_output_channels == 1 else "RGB")
        ),
    }
    for name in ("Resize", "Scale"):
        known[name] = lambda size, *_, **__: lambda image: resize(image, size)
    for name in ("RandomResizedCrop", "RandomSizedCrop"):
        known[name] = lambda size, *_, **__: (
            lambda image: resize(image, (size, size) if isinstance(size, int) else size)
        )
    for name in ("RandomRotation", "ColorJitter", "RandomAffine", "RandomErasing",
                 "RandomVerticalFlip", "RandomGrayscale", "RandomPerspective", "AutoAugment",
                 "RandAugment", "GaussianBlur", "ConvertImageDtype"):  # fmt: skip
        known[name] = lambda *_, **__: lambda image: image
    vars(module).update(known)
    return module


def _size_of(image: Any) -> tuple[int, int]:
    if isinstance(image, Image):
        return image.size
    return image.shape[-1], image.shape[-2]


def _at(image: Any, rows: torch.Tensor, columns: torch.Tensor) -> Any:
    if isinstance(image, Image):
        return Image(image.pixels[rows][:, columns])
    return image[..., rows, :][..., columns]
