"""Generated inputs of models that hear: waves, and the features that a processor computes of them."""

from __future__ import annotations

from typing import Any

import torch

_SAMPLES = 4000  # a quarter of a second of sound
_WORDS = 8


def sound_inputs(model: Any, source: torch.Generator) -> dict[str, torch.Tensor] | None:
    """Return inputs of a model of transformers for sound, or None if it takes others.

    Whisper takes `input_features` of one length only: two frames for each position of its encoder, with
    the words so far for its decoder.

    Args:
        model: a `PreTrainedModel`.
        source: the generator of the numbers.
    """
    if model.main_input_name == "input_values":
        return {"input_values": torch.randn((2, _SAMPLES), generator=source)}
    if model.main_input_name != "input_features":
        return None
    settings = model.config.to_dict()
    bins, positions = settings.get("num_mel_bins"), settings.get("max_source_positions")
    if bins is None or positions is None:
        return None
    found = {"input_features": torch.randn((2, bins, 2 * positions), generator=source)}
    if model.config.is_encoder_decoder:
        words = settings["vocab_size"]
        found["decoder_input_ids"] = torch.randint(words, (2, _WORDS), generator=source)
    return found
