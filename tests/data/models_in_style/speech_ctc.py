"""A speech encoder: lengths computed from masks, attention masks by index, weights of layers, feature lists."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_layers = nn.ModuleList([nn.Conv1d(1, 4, 3, 2), nn.Conv1d(4, 4, 3, 2)])
        self.conv_kernel, self.conv_stride = [3, 3], [2, 2]
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.lm_head = nn.Linear(4, 5)
        self.layer_weights = nn.Parameter(torch.ones(3) / 3)
        self.use_weighted_layer_sum, self.ctc_loss_reduction, self.ctc_zero_infinity = True, "sum", True
        self._requires_grad = True

    def _get_feat_extract_output_lengths(self, input_lengths):
        def _conv_out_length(input_length, kernel_size, stride):
            return torch.div(input_length - kernel_size, stride, rounding_mode="floor") + 1

        for kernel_size, stride in zip(self.conv_kernel, self.conv_stride):
            input_lengths = _conv_out_length(input_lengths, kernel_size, stride)
        return input_lengths

    def _get_feature_vector_attention_mask(self, feature_vector_length, attention_mask):
        non_padded_lengths = attention_mask.cumsum(dim=-1)[:, -1]
        output_lengths = self._get_feat_extract_output_lengths(non_padded_lengths).to(torch.long)
        attention_mask = torch.zeros((attention_mask.shape[0], feature_vector_length), dtype=attention_mask.dtype)
        attention_mask[(torch.arange(attention_mask.shape[0]), output_lengths - 1)] = 1
        return attention_mask.flip([-1]).cumsum(-1).flip([-1]).bool()

    def forward(self, input_values, attention_mask=None, labels=None):
        hidden = input_values[:, None]
        if self._requires_grad and self.training:
            hidden.requires_grad = True
        for conv in self.conv_layers:
            hidden = F.gelu(conv(hidden))
        hidden = hidden.transpose(1, 2)
        mask = None
        if attention_mask is not None:
            mask = self._get_feature_vector_attention_mask(hidden.shape[1], attention_mask)
            hidden = hidden.masked_fill(~mask.unsqueeze(-1), 0.0)
        states = [hidden]
        for layer in self.layers:
            hidden = hidden + layer(hidden)
            states.append(hidden)
        if self.use_weighted_layer_sum:
            stacked = torch.stack(states, dim=1)
            weights = F.softmax(self.layer_weights, dim=-1)
            hidden = (stacked * weights.view(-1, 1, 1)).sum(dim=1)
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            if labels.max() >= 5:
                raise ValueError(f"Label values must be <= vocab_size: {5}")
            attention_mask = attention_mask if attention_mask is not None else torch.ones_like(input_values, dtype=torch.long)
            input_lengths = self._get_feat_extract_output_lengths(attention_mask.sum(-1)).to(torch.long)
            labels_mask = labels >= 0
            target_lengths = labels_mask.sum(-1)
            flattened = labels.masked_select(labels_mask)
            log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32).transpose(0, 1)
            with torch.backends.cudnn.flags(enabled=False):
                loss = F.ctc_loss(log_probs, flattened, input_lengths, target_lengths,
                                  reduction=self.ctc_loss_reduction, zero_infinity=self.ctc_zero_infinity)
        return loss, logits, mask


def inputs(rows):
    return (torch.randn(rows, 20),), {}


def second_inputs(rows):
    mask = torch.ones(rows, 24, dtype=torch.long)
    mask[0, 15:] = 0
    labels = torch.randint(1, 5, (rows, 2))
    labels[0, 1] = -100
    return (torch.randn(rows, 24), mask, labels), {}


def third_inputs(rows):
    return (torch.randn(rows, 20),), {"labels": torch.full((rows, 2), 7)}


CHANGES = {"sum": lambda net: setattr(net, "use_weighted_layer_sum", False), "mean": lambda net: setattr(net, "ctc_loss_reduction", "mean")}
