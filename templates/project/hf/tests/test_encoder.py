"""The encoder is one node: same numbers as by hand, gradients through it; offline."""

import pytest
import torch

from {{ package }}.encoder import EncoderClassifier

transformers = pytest.importorskip("transformers")


def test_scores_are_those_of_the_parts() -> None:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=30, intermediate_size=32, **shape)
    model = EncoderClassifier(transformers.BertModel(config), 16, 3).eval()
    ids, mask = torch.randint(30, (2, 5)), torch.ones(2, 5, dtype=torch.long)
    scores = model(ids, mask)
    hidden = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.equal(scores, model.head(hidden[:, 0]))
    scores.sum().backward()
    gradients = [parameter.grad is not None for parameter in model.encoder.parameters()]
    assert any(gradients)
