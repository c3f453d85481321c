"""Values that a flow reads late, or makes texts and keys of: weights of hooks, sizes in texts, errors."""

import pytest
import torch
from torch import nn

from flodl import FlowModule

pytestmark = pytest.mark.torch


class Fresh(nn.Linear):
    """A layer that recomputes its scale in each call, as weight norm does."""

    def forward(self, x):
        self.scale = self.weight.abs().sum() * x.sum().detach()
        return super().forward(x)


class Late(FlowModule):
    def __init__(self):
        super().__init__()
        self.first, self.fresh = nn.Linear(2, 2), Fresh(2, 2)

    def flow(self, x):
        y = nn.functional.linear(x, self.first.weight)
        return self.fresh(y), self.fresh.scale


def test_tensor_that_a_step_has_set_is_read_where_it_is():
    net = Late()
    for scale in (1.0, 2.0, 3.0):
        _, read = net(torch.full((3, 2), scale))
        assert read is net.fresh.scale


class Shown(FlowModule):
    def flow(self, x):
        return {tuple(x.shape): str(x.shape[0]), repr([x.size(1)]): x}


def test_size_in_a_text_or_a_key_is_that_of_the_call():
    net = Shown()
    for rows in (2, 3, 2):
        found = net(torch.ones(rows, 4))
        assert list(found) == [(rows, 4), "[4]"]
        assert found[rows, 4] == str(rows)


class Raising(FlowModule):
    def flow(self, x):
        raise KeyError(x.size(0), [x])


def test_error_that_a_flow_raises_holds_values():
    x = torch.ones(3)
    with pytest.raises(KeyError) as raised:
        Raising()(x)
    assert raised.value.args[0] == 3
    assert raised.value.args[1][0] is x


class Sized(FlowModule):
    def flow(self, x, n=None):
        return torch.zeros(x.argmax() + 1, 3)


def test_tensor_as_size_is_taken_at_every_call():
    net = Sized()
    for place, n in ((1, None), (2, 1), (0, torch.tensor(1))):
        assert net(torch.eye(4)[place], n).shape == (place + 1, 3)
