from torch import nn
import torch

model = nn.Sequential(
    nn.Linear(4, 8),  # wide
    nn.ReLU(),
    nn.Linear(8, 2),
)
indexed = nn.Sequential(nn.Linear(4, 4))
first = indexed[0]


def check():
    return model(torch.ones(1, 4)), list(model.state_dict())
