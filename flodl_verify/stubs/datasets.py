"""Small synthetic data sets in the shape of those that scripts download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch

from flodl_verify.sandbox.memory import tensor_bytes

NUM_SAMPLES = 640


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The form of one sample of a data set."""

    channels: int
    size: int
    classes: int


# Channels, size and number of classes of the data sets of torchvision.
VISION: dict[str, Shape] = {
    name: Shape(channels=channels, size=size, classes=classes)
    for name, channels, size, classes in (
        ("MNIST", 1, 28, 10), ("FashionMNIST", 1, 28, 10), ("KMNIST", 1, 28, 10),
        ("QMNIST", 1, 28, 10), ("EMNIST", 1, 28, 47), ("Omniglot", 1, 105, 964),
        ("USPS", 1, 16, 10), ("CIFAR10", 3, 32, 10), ("CIFAR100", 3, 32, 100),
        ("SVHN", 3, 32, 10), ("STL10", 3, 96, 10), ("LSUN", 3, 256, 10),
        ("ImageNet", 3, 256, 1000), ("ImageFolder", 3, 256, 2), ("DatasetFolder", 3, 256, 2),
        ("CelebA", 3, 218, 40), ("Flowers102", 3, 256, 102), ("Food101", 3, 256, 101),
        ("OxfordIIITPet", 3, 256, 37), ("StanfordCars", 3, 256, 196), ("GTSRB", 3, 48, 43),
        ("Caltech101", 3, 256, 101), ("Caltech256", 3, 256, 257), ("FakeData", 3, 224, 10),
    )
}  # fmt: skip


@final
class SyntheticImages(torch.utils.data.Dataset[Any]):
    """Images of noise with labels; every index has its own, the same in every run."""

    def __init__(
        self,
        shape: Shape,
        make: Callable[[torch.Tensor], Any],
        *,
        transform: Any,
        target_transform: Any,
        both: Any,
    ) -> None:
        self.shape = shape
        self._make = make
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = both
        self.classes = [str(number) for number in range(shape.classes)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets = [number * 7919 % shape.classes for number in range(NUM_SAMPLES)]
        self.labels = self.targets
        self.samples = self.imgs = [(f"{n}.png", label) for n, label in enumerate(self.targets)]

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not -NUM_SAMPLES <= index < NUM_SAMPLES:
            raise IndexError(index)
        image, label = self._make(self._pixels(index)), self.targets[index]
        if self.transforms is not None:
            return self.transforms(image, label)  # type: ignore[no-any-return]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label

    @property
    def data(self) -> Any:
        """All images at once, as the real data sets keep them."""
        pixels = torch.stack([self._pixels(index) for index in range(NUM_SAMPLES)])
        if self.shape.channels == 1:
            self.targets = torch.tensor(self.targets)  # type: ignore[assignment]
            return pixels[..., 0]
        return pixels.__array__()  # type: ignore[no-untyped-call]

    train_data = test_data = data

    @property
    def train_labels(self) -> Any:
        """The labels under their old name."""
        return torch.as_tensor(self.targets)

    test_labels = train_labels

    def _pixels(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(index % NUM_SAMPLES)
        size = (self.shape.size, self.shape.size, self.shape.channels)
        return torch.randint(0, 256, size, generator=generator, dtype=torch.uint8)


def pillow_image(pixels: torch.Tensor) -> Any:
    """Return an image of PIL with pixels (height, width, channels)."""
    import PIL.Image

    height, width, channels = pixels.shape
    mode = "L" if channels == 1 else "RGB"
    return PIL.Image.frombytes(mode, (width, height), tensor_bytes(pixels.contiguous()))


@final
class Image:
    """The part of an image's interface that a script uses before it becomes a tensor."""

    def __init__(self, pixels: torch.Tensor) -> None:
        self.pixels = pixels

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def mode(self) -> str:
        """`L` or `RGB`."""
        return "L" if self.pixels.shape[2] == 1 else "RGB"

    def convert(self, mode: str) -> Image:
        """Return the image with another number of channels."""
        if mode == self.mode:
            return self
        if mode == "L":
            return Image(self.pixels.float().mean(2, keepdim=True).to(torch.uint8))
        return Image(self.pixels.expand(-1, -1, 3))

    def resize(self, size: tuple[int, int], *_: object) -> Image:
        """Return the image in another width and height."""
        rows = torch.arange(size[1]) * self.pixels.shape[0] // size[1]
        columns = torch.arange(size[0]) * self.pixels.shape[1] // size[0]
        return Image(self.pixels[rows][:, columns])


def synthetic_vision(
    name: str, image: Callable[[torch.Tensor], Any] = Image
) -> Callable[..., SyntheticImages]:
    """Return the stand-in for a data set class of torchvision; `image` makes one of its pixels."""
    shape = VISION[name]

    def make(
        *args: Any, transform: Any = None, target_transform: Any = None, **kwargs: Any
    ) -> SyntheticImages:
        given = [item for item in args if callable(item)]
        first = given[0] if given else None
        second = given[1] if len(given) > 1 else None
        return SyntheticImages(
            shape,
            image,
            transform=transform or first,
            target_transform=target_transform or second,
            both=kwargs.get("transforms"),
        )

    return make
