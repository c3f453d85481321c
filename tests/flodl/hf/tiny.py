"""Small random models of transformers."""

import torch


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
