"""Small random models of transformers."""

import importlib
import importlib.metadata

import pytest
import torch

WHY = 'transformers is not installed: `pip install "transformers>=4.57,<5"`'


def transformers():
    """Return the library, or skip; a module that another test left under its name does not count."""
    try:
        importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(WHY)
    return importlib.import_module("transformers")


def gpt2(library):
    """Return a GPT-2 with a head for language."""
    torch.manual_seed(0)
    config = library.GPT2Config(
        vocab_size=60,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=1,
    )
    return library.GPT2LMHeadModel(config)
