"""A Hugging Face encoder as one node of a flow graph, with a head of our own."""

from typing import Any

from flodl import Flow, FlowModule, call
from torch import nn


class EncoderClassifier(FlowModule):
    """Scores from the first token of an encoder's last layer, such as that of `AutoModel`."""

    def __init__(self, encoder: nn.Module, hidden: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(hidden, classes)

    def flow(self, input_ids: Flow, attention_mask: Flow) -> Flow:
        """Describe it; `call` is one node for a module that takes keywords only."""
        output: Any = call(self.encoder, input_ids=input_ids, attention_mask=attention_mask)
        first: Flow = output.last_hidden_state[:, 0]
        return first.through(self.head)
