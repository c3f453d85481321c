"""The proof of a port on a tiny configuration: equal bits in eval and in train.

Original: BertModel(tiny); port: BertModel(tiny) with the same weights.  Both get the same tokens and
seed; "equal" means that all output tensors have the same bits, in both modes.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from flodl.hf.sound import sound_inputs

_SIZES = {
    "vocab_size": 60, "hidden_size": 32, "d_model": 32, "dim": 32, "n_embd": 32, "embedding_size": 32,
    "num_hidden_layers": 2, "n_layers": 2, "n_layer": 2, "num_layers": 2, "num_decoder_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_attention_heads": 4, "n_heads": 4, "n_head": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "d_kv": 8, "intermediate_size": 48, "hidden_dim": 48, "n_inner": 48, "d_ff": 48,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "ffn_dim": 48, "max_position_embeddings": 64,
    "n_positions": 64, "image_size": 32, "patch_size": 8, "word_embed_proj_dim": 32,
    "max_source_positions": 20, "max_target_positions": 20, "num_mel_bins": 8,
}  # fmt: skip
_TOKENS = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}


def prove(original: str, port: ModuleType) -> str:
    """Return `equal`, `different`, or the reason why there is no proof."""
    home = importlib.import_module(original)
    kind = _main_model(home)
    if kind is None:
        return "no model of the file has a configuration of its own"
    with torch.random.fork_rng(devices=[]):
        try:
            configuration = _tiny(kind.config_class)
            plain = kind(configuration)
            values = _inputs(plain)
            expected = [_run(plain, values, train=train) for train in (False, True)]
        except Exception as error:  # the tiny sizes do not suit each family
            return f"no tiny configuration was found ({type(error).__name__}: {error})"[:300]
        twin = vars(port)[kind.__name__](configuration)
        twin.load_state_dict(plain.state_dict())
        found = [_run(twin, values, train=train) for train in (False, True)]
    same = all(
        len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(expected, found, strict=True)
    )
    return "equal" if same else "different"


def _main_model(home: ModuleType) -> Any:
    kinds = [
        each
        for name, each in vars(home).items()
        if inspect.isclass(each) and each.__module__ == home.__name__ and name.endswith("Model")
        and not name.endswith("PreTrainedModel") and vars(each).get("forward") is not None
    ]  # fmt: skip
    return min(kinds, key=lambda each: len(each.__name__), default=None)


def _tiny(kind: Any) -> Any:
    named = set(inspect.signature(kind.__init__).parameters) | set(kind.attribute_map)
    return kind(**{k: v for k, v in _SIZES.items() if k in named}, **_TOKENS)


def _inputs(model: Any) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(11)
    if model.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=source)}
    heard = sound_inputs(model, source)
    if heard is not None:
        return heard
    if model.main_input_name != "input_ids":
        raise TypeError(f"inputs {model.main_input_name} are unknown")
    tokens = torch.randint(4, 60, (2, 7), generator=source)
    found = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if model.config.is_encoder_decoder:
        found["decoder_input_ids"] = tokens[:, :5]
    return found


def _run(model: nn.Module, values: dict[str, torch.Tensor], *, train: bool) -> list[torch.Tensor]:
    torch.manual_seed(5)
    with torch.no_grad():
        return list(_tensors(model.train(train)(**values)))


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    # The output classes of original and port are two, so their fields are compared.
    whole = tuple(found.values()) if isinstance(found, dict) else found
    yield from (each for each in pytree.tree_leaves(whole) if isinstance(each, torch.Tensor))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape
        and torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
    )  # fmt: skip
