import torch
import torch.nn as nn
from flodl import FlowModule, subflow


class Rules(FlowModule):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 3)


class Hard(Rules):
    @subflow
    def explained(self, x):
        scores = x.through(self.score)
        return scores.argmax(1), scores

    def flow(self, x):
        chosen, scores = self.explained(x)
        return scores * (chosen.unsqueeze(1) + 1)


class Soft(Rules):
    # Only the sibling's forward needs a method of this name.
    def explained(self, x):
        return self.forward(x), "softly"

    def flow(self, x):
        return x.through(self.score).softmax(1)


def check():
    x = torch.rand(2, 4)
    soft = Soft()
    return Hard()(x).tolist(), soft(x).tolist(), soft.explained(x)[0].tolist()
