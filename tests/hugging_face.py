"""The library transformers for tests: offline, and without a torchvision that does not start."""

import contextlib
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator

import pytest

from docs._build.running import torchvision_starts

WHY = "transformers is not installed: `pip install 'flodl[hf,torch]'`"


def transformers():
    """Return the library, or skip."""
    try:
        importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(WHY)
    if "transformers" in sys.modules:
        return sys.modules["transformers"]
    os.environ["HF_HUB_OFFLINE"] = "1"  # read at the first import, for the whole process
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # other tests fork, and it would warn
    with contextlib.nullcontext() if torchvision_starts() else without_torchvision():
        return importlib.import_module("transformers")


@contextlib.contextmanager
def without_torchvision() -> Iterator[None]:
    """Hide it: transformers looks for it once, and would import it with each of its models."""
    sys.modules["torchvision"] = None
    try:
        yield
    finally:
        del sys.modules["torchvision"]
