"""Stands beside every file of the corpus as `_paritybench_helpers.py`: its helpers, and stubs.

Each file of the corpus imports this module before anything else, so missing libraries are replaced
from here: a stub accepts every call and answers with another stub. Nothing of the corpus is copied.
"""

# The names and signatures are the corpus's.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204, ARG001, ARG002, N801

import collections
import collections.abc
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types

import numpy as np
import torch

STUBBED = (
    "PIL", "cv2", "librosa", "matplotlib", "pandas", "scipy", "skimage", "sklearn", "tensorboard",
    "tensorboardX", "tensorflow", "torchaudio", "torchtext", "torchvision", "transformers",
)  # fmt: skip


class Anything:
    """Accepts whatever is done with it."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Stub(types.ModuleType):
    """A module that has every name: classes for capitals, values for the rest."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Anything,), {}) if name[:1].isupper() else Anything()
        setattr(self, name, made)
        return made


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what is not installed; it stands last, so that real libraries win."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in STUBBED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def old_names():
    """Bring back names that Python, numpy and torch had, and one that wants a library."""
    if "tensorboard" not in sys.modules:
        sys.modules["torch.utils.tensorboard"] = Stub("torch.utils.tensorboard")
    six = types.ModuleType("torch._six")
    six.string_classes, six.int_classes, six.FileNotFoundError = (str, bytes), int, OSError
    six.container_abcs, six.inf, six.nan = collections.abc, float("inf"), float("nan")
    sys.modules.setdefault("torch._six", six)
    for name in collections.abc.__all__:
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    for name, kind in (("float", float), ("int", int), ("bool", bool), ("object", object)):
        if name not in vars(np):
            setattr(np, name, kind)


def install():
    """Add the finder, and declare the operators without which torchvision's wheel cannot load."""
    if not any(type(finder).__name__ == "StubFinder" for finder in sys.meta_path):
        sys.meta_path.append(StubFinder())
        old_names()
    if importlib.util.find_spec("torchvision") is None or hasattr(torch, "_parity_operators"):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        try:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        except RuntimeError:
            continue
    torch._parity_operators = library


class DummyBlock(torch.nn.ReLU):
    """Stands for a layer that the corpus could not name."""

    expansion = 1


@functools.cache
def patch_functional():
    """Give `torch.functional` and `torch.nn.functional` each other's functions: both are called F."""
    pair = torch.functional, torch.nn.functional
    tables = [{n: getattr(m, n) for n in dir(m) if re.match("[a-z]", n)} for m in pair]
    for module, other in zip(pair, reversed(tables), strict=True):
        for name, value in other.items():
            if not hasattr(module, name):
                setattr(module, name, value)


def _mock_layer(in_features=None, out_features=None, *args, **kwargs):
    if in_features and out_features:
        return torch.nn.Linear(in_features, out_features, **kwargs)
    return DummyBlock()


class _mock_config(dict):
    __getattr__ = dict.__getitem__


def _fails_compile():
    return lambda function: function


class _paritybench_base:
    pass


install()
