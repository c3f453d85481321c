"""The library transformers for tests: offline, and without a torchvision that does not start."""

import importlib
import importlib.metadata
import os

import pytest

from docs._build.running import torchvision_starts

WHY = "transformers is not installed: `pip install 'flodl[hf,torch]'`"


def transformers():
    """Return the library, or skip."""
    try:
        importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(WHY)
    os.environ["HF_HUB_OFFLINE"] = "1"  # read at the first import, for the whole process
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # other tests fork, and it would warn
    library = importlib.import_module("transformers")
    if not torchvision_starts():
        # Whichever test imported it first, it only looked for the folder of torchvision.
        found = importlib.import_module("transformers.utils.import_utils")
        assert "_torchvision_available" in vars(found)
        vars(found)["_torchvision_available"] = False
    return library
