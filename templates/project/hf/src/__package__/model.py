"""The network: an encoder, as one node of a flow graph, with a head of our own."""

from transformers import AutoModel, BertConfig, BertModel

from {{ package }}.config import Config, ConfigError
from {{ package }}.data import VOCABULARY
from {{ package }}.encoder import EncoderClassifier


def build_model(config: Config) -> EncoderClassifier:
    """Return a model; its encoder is a fresh BERT, or that of a folder or of a name on the hub."""
    width, drop = config.model.width, config.model.dropout
    shape = {"hidden_size": width, "num_hidden_layers": config.model.blocks}
    rates = {"hidden_dropout_prob": drop, "attention_probs_dropout_prob": drop}
    if config.model.pretrained:
        try:
            encoder = AutoModel.from_pretrained(config.model.pretrained)
        except (OSError, ValueError) as problem:
            raise ConfigError(f"model.pretrained: {problem}") from problem
    else:
        more = {"num_attention_heads": 4, "intermediate_size": 2 * width}
        settings = BertConfig(vocab_size=VOCABULARY, **shape, **more, **rates)
        encoder = BertModel(settings, add_pooling_layer=False)
    return EncoderClassifier(encoder, encoder.config.hidden_size, config.data.classes)
