"""The network: a small BERT, as one node of a flow graph, with a head of our own."""

from transformers import BertConfig, BertModel

from {{ package }}.config import Config
from {{ package }}.data import VOCABULARY
from {{ package }}.encoder import EncoderClassifier


def build_model(config: Config) -> EncoderClassifier:
    """Return a fresh model; `AutoModel.from_pretrained(NAME)` is an encoder that knows words."""
    settings = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=config.model.width,
        num_hidden_layers=config.model.blocks,
        num_attention_heads=4,
        intermediate_size=2 * config.model.width,
        hidden_dropout_prob=config.model.dropout,
        attention_probs_dropout_prob=config.model.dropout,
    )
    encoder = BertModel(settings, add_pooling_layer=False)
    return EncoderClassifier(encoder, config.model.width, config.data.classes)
