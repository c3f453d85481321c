"""What must be known of a project to run its models: their names, how to build and how to call one.

A `Family` is asked in a process that has the project (the original or the port) on its path, so its
methods import the project late; nothing else differs between the two sides.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCHES = (1, 2)
TRAINED = 2  # a batch of one is too small for many normalisations
IMAGE_SIZES = (32, 64, 96, 128, 160, 224, 256, 320)
# In plain torch, pooling thousands of boxes takes minutes.
FEW_PROPOSALS = {
    "rpn_pre_nms_top_n_train": 100,
    "rpn_pre_nms_top_n_test": 60,
    "rpn_post_nms_top_n_train": 60,
    "rpn_post_nms_top_n_test": 30,
    "box_batch_size_per_image": 32,
    "box_detections_per_img": 20,
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One way to call a model: what kind of input, and how large."""

    kind: str
    size: int


class Family(Protocol):
    """A project whose models can be listed, built and called."""

    def names(self) -> list[str]:
        """Return the names of all models."""

    def group(self, name: str) -> str:
        """Return the kind of model that a name belongs to."""

    def build(self, name: str) -> torch.nn.Module:
        """Construct a model."""

    def shapes(self, model: torch.nn.Module) -> Iterator[Shape]:
        """Return the ways to call a model that are worth a try, the cheapest first."""

    def inputs(self, shape: Shape, batch: int, *, training: bool) -> tuple[Any, ...]:
        """Make the arguments of one call."""

    def others(self, model: torch.nn.Module, shape: Shape) -> object:
        """Return what methods besides forward give, in eval mode."""


def noise(*sizes: int) -> torch.Tensor:
    """Return fixed noise of a shape."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(11))


def recognise(root: Path) -> Family:
    """Return the family of the project in a folder."""
    for mark, family in (
        ("torchvision/models", TorchVision),
        ("pytorchcv/model_provider.py", PyTorchCv),
        ("mingpt/model.py", MinGpt),
        ("configurator.py", NanoGpt),
    ):
        if (root / mark).exists():
            return family()
    raise SystemExit(
        f"zoo: nothing is known about the models in {root}; known are torchvision, pytorchcv, "
        "minGPT and nanoGPT: add a class to benchmarks/model_zoo/families.py"
    )


def chosen(family: Family, patterns: list[str], most: int | None) -> list[str]:
    """Return the names that match; of at most some, one of every group after the other."""
    names = family.names()
    if patterns:
        names = [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    if most is None:
        return names
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(family.group(name), []).append(name)
    turns = max(map(len, groups.values()))
    spread = [g[turn] for turn in range(turns) for g in groups.values() if turn < len(g)]
    return spread[:most]


class OnlyForward:
    """A family whose models have no other methods that people call."""

    def others(self, model: torch.nn.Module, shape: Shape) -> object:
        """Return nothing."""
        del model, shape


class TorchVision(OnlyForward):
    """`torchvision.models`: classification, segmentation, detection, video, optical flow."""

    def names(self) -> list[str]:
        """Return the names that torchvision has registered."""
        from torchvision.models import list_models

        return list_models()

    def group(self, name: str) -> str:
        """Return the file of the model, below `torchvision.models`."""
        from torchvision.models import get_model_builder

        return get_model_builder(name).__module__.removeprefix("torchvision.models.")

    def build(self, name: str) -> torch.nn.Module:
        """Construct a model without weights; detectors work on small images."""
        from torchvision.models import get_model

        settings: dict[str, Any] = {"weights": None}
        group = self.group(name)
        if group.startswith(("detection", "segmentation")):
            settings["weights_backbone"] = None
        if group.startswith("detection") and not name.startswith("ssd"):
            settings |= {"min_size": 64, "max_size": 96}
        if "rcnn" in name:
            settings |= FEW_PROPOSALS
        return get_model(name, **settings)

    def shapes(self, model: torch.nn.Module) -> Iterator[Shape]:
        """Tell by the model's module what it wants."""
        home = type(model).__module__
        if ".detection" in home:
            yield Shape(kind="detection", size=96)
        elif ".optical_flow" in home:
            yield Shape(kind="pair", size=128)
        elif ".video" in home:
            yield from (Shape(kind="clip", size=size) for size in (32, 64, 112, 224))
        else:
            yield from (Shape(kind="image", size=size) for size in IMAGE_SIZES)

    def inputs(self, shape: Shape, batch: int, *, training: bool) -> tuple[Any, ...]:
        """Make images, clips, pairs of images, or images with boxes."""
        if shape.kind != "detection":
            return image_inputs(shape, batch)
        images = [noise(3, shape.size, shape.size + 8 * n).sigmoid() for n in range(batch)]
        return (images, [_target(shape.size) for _ in images]) if training else (images,)


def image_inputs(shape: Shape, batch: int) -> tuple[Any, ...]:
    """Return what models of images and clips are called with."""
    side = shape.size
    if shape.kind == "clip":
        return (noise(batch, 3, 16, side, side),)
    if shape.kind == "pair":
        return noise(batch, 3, side, side), noise(batch, 3, side, side).flip(0)
    if shape.kind == "grey":
        return (noise(batch, 1, side, side),)
    if shape.kind == "sound":
        return noise(batch, side, 48), torch.arange(48, 48 - batch, -1)
    return (noise(batch, 3, side, side),)


def _target(size: int) -> dict[str, torch.Tensor]:
    boxes = torch.tensor([[4.0, 4.0, size / 2, size / 2], [10.0, 20.0, size - 8, size - 4]])
    masks = torch.zeros(2, size, size, dtype=torch.uint8)
    masks[:, 8 : size // 2, 8 : size // 2] = 1
    keypoints = torch.ones(2, 17, 3)
    keypoints[:, :, :2] = torch.linspace(12, size / 2 - 4, 17)[None, :, None]
    return {"boxes": boxes, "labels": torch.tensor([1, 1]), "masks": masks, "keypoints": keypoints}


class PyTorchCv(OnlyForward):
    """`pytorchcv.model_provider`: about 900 names in 160 files."""

    def names(self) -> list[str]:
        """Return the names that its provider knows."""
        from pytorchcv import model_provider

        return list(model_provider._models)

    def group(self, name: str) -> str:
        """Return the file of the model, below `pytorchcv.models`."""
        from pytorchcv import model_provider

        return model_provider._models[name].__module__.removeprefix("pytorchcv.models.")

    def build(self, name: str) -> torch.nn.Module:
        """Construct a model without weights."""
        from pytorchcv.model_provider import get_model

        return get_model(name)

    def shapes(self, model: torch.nn.Module) -> Iterator[Shape]:
        """Try small images, the model's own size, then everything else that its files take."""
        for size in (*IMAGE_SIZES, max(getattr(model, "in_size", None) or (0,))):
            if size:
                yield Shape(kind="image", size=size)
        yield Shape(kind="grey", size=64)
        yield Shape(kind="sound", size=64)
        yield Shape(kind="sound", size=80)
        yield Shape(kind="pair", size=128)

    def inputs(self, shape: Shape, batch: int, *, training: bool) -> tuple[Any, ...]:
        """Make images, or sounds with their lengths."""
        del training
        return image_inputs(shape, batch)


class MinGpt:
    """`mingpt.model.GPT` in two small settings."""

    SETTINGS = {"gpt": {"n_layer": 3, "n_head": 4, "n_embd": 32}, "gpt-nano": {}}

    def names(self) -> list[str]:
        """Return the names of the settings."""
        return list(self.SETTINGS)

    def group(self, name: str) -> str:
        """Return the only file there is."""
        del name
        return "model"

    def build(self, name: str) -> torch.nn.Module:
        """Construct a small model."""
        from mingpt.model import GPT

        config = GPT.get_default_config()
        config.merge_from_dict({"vocab_size": 50, "block_size": 16, **self.SETTINGS[name]})
        config.model_type = name if name != "gpt" else None
        return GPT(config)

    def shapes(self, model: torch.nn.Module) -> Iterator[Shape]:
        """Return the one way to call it."""
        del model
        yield Shape(kind="tokens", size=16)

    def inputs(self, shape: Shape, batch: int, *, training: bool) -> tuple[Any, ...]:
        """Make tokens, with targets for training."""
        generator = torch.Generator().manual_seed(11)
        tokens = torch.randint(0, 50, (batch, shape.size + 1), generator=generator)
        first, second = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        return (first, second) if training else (second,)

    def others(self, model: torch.nn.Module, shape: Shape) -> object:
        """Write some text: longer than the context, so that it is cropped."""
        start = torch.zeros(1, 1, dtype=torch.long)
        return model.generate(start, shape.size + 2, temperature=0.8, top_k=5)


class NanoGpt(MinGpt):
    """`model.GPT` of nanoGPT, with and without bias."""

    SETTINGS = {"gpt": {"bias": True, "dropout": 0.1}, "gpt-no-bias": {"bias": False}}

    def build(self, name: str) -> torch.nn.Module:
        """Construct a small model."""
        from model import GPT, GPTConfig

        common = {"vocab_size": 50, "block_size": 16, "n_layer": 3, "n_head": 4, "n_embd": 32}
        return GPT(GPTConfig(**common, **self.SETTINGS[name]))
