"""A stage may return None, and a helper of the class may ask for that."""

import pytest

SOURCE = """
import torch
from torch import nn

class Nothing(nn.Module):
    def forward(self, x):
        return None

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.skip = Nothing()

    def join(self, x, y):
        if y is not None:
            x = x + y
        return x

    def forward(self, x, **options):
        return self.join(self.a(x), self.skip(x))
"""


@pytest.mark.torch
def test_none_of_a_stage_reaches_a_helper(porter):
    import torch

    made = porter.text(SOURCE)
    assert "class Net(FlowModule)" in made
    answers = []
    for text in (SOURCE, made):
        space = {"__name__": "net"}
        exec(text, space)
        torch.manual_seed(0)
        answers.append(space["Net"]()(torch.ones(2, 4)).tolist())
    assert answers[0] == answers[1]
