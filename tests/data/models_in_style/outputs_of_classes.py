"""Outputs as dataclasses and named tuples, chosen by `return_dict`, with attributes read by callers."""

import dataclasses
from typing import Optional

import torch
from torch import nn


@dataclasses.dataclass
class ModelOutput:
    last_hidden_state: torch.Tensor = None
    pooler_output: Optional[torch.Tensor] = None
    hidden_states: Optional[tuple] = None

    def to_tuple(self):
        return tuple(v for v in (self.last_hidden_state, self.pooler_output, self.hidden_states) if v is not None)

    def __getitem__(self, k):
        return self.to_tuple()[k]


class Config:
    use_return_dict = True
    output_hidden_states = False
    problem_type = None
    num_labels = 2


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.pooler = nn.Linear(4, 4)

    def forward(self, x, output_hidden_states=None, return_dict=None):
        output_hidden_states = (
            output_hidden_states if output_hidden_states is not None else self.config.output_hidden_states
        )
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        states = () if output_hidden_states else None
        for layer in self.layers:
            if output_hidden_states:
                states = states + (x,)
            x = layer(x).tanh()
        pooled = self.pooler(x[:, 0]) if self.pooler is not None else None
        if not return_dict:
            return (x, pooled, states) if states else (x, pooled)
        return ModelOutput(last_hidden_state=x, pooler_output=pooled, hidden_states=states)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.encoder = Encoder(self.config)
        self.classifier = nn.Linear(4, 2)
        self.num_labels = 2

    def forward(self, x, labels=None, return_dict=None, **kwargs):
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        outputs = self.encoder(x, return_dict=return_dict, **kwargs)
        pooled = outputs[1]
        logits = self.classifier(pooled if pooled is not None else outputs[0].mean(1))
        loss = None
        if labels is not None:
            if self.config.problem_type is None:
                if self.num_labels == 1:
                    self.config.problem_type = "regression"
                elif self.num_labels > 1 and (labels.dtype == torch.long or labels.dtype == torch.int):
                    self.config.problem_type = "single_label_classification"
                else:
                    self.config.problem_type = "multi_label_classification"
            if self.config.problem_type == "single_label_classification":
                loss = nn.CrossEntropyLoss()(logits.view(-1, self.num_labels), labels.view(-1))
            elif self.config.problem_type == "multi_label_classification":
                loss = nn.BCEWithLogitsLoss()(logits, labels)
        if not return_dict:
            output = (logits,) + outputs[2:]
            return ((loss,) + output) if loss is not None else output
        return {"loss": loss, "logits": logits, "hidden": outputs.hidden_states, "out": outputs}


def inputs(rows):
    return (torch.randn(rows, 3, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 3, 4), torch.randint(0, 2, (rows,))), {"return_dict": False}


def third_inputs(rows):
    return (torch.randn(rows, 3, 4),), {"output_hidden_states": True}


CHANGES = {
    "states": lambda net: setattr(net.config, "output_hidden_states", True),
    "tuples": lambda net: setattr(net.config, "use_return_dict", False),
    "no pooler": lambda net: setattr(net.encoder, "pooler", None),
    "problem": lambda net: setattr(net.config, "problem_type", "multi_label_classification"),
    "other config": lambda net: setattr(net, "config", Config()),
}
