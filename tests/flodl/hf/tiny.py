"""Small random models of transformers."""

import torch


def bert(library):
    """Return a BERT that classifies texts."""
    torch.manual_seed(0)
    config = library.BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
    )
    return library.BertForSequenceClassification(config)


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


def llama(library):
    """Return a Llama with a head for language."""
    torch.manual_seed(0)
    config = library.LlamaConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=1,
    )
    return library.LlamaForCausalLM(config)


def vit(library):
    """Return a ViT that classifies pictures."""
    torch.manual_seed(0)
    config = library.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=16,
        patch_size=8,
        num_labels=3,
    )
    return library.ViTForImageClassification(config)
