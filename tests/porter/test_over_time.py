"""Loops over time, slices and modules become words: outputs and gradients keep their bits."""

import pytest

pytestmark = pytest.mark.torch

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
LSTM = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(6, 3)

    def forward(self, x, state=None):
        B, T, _ = x.shape  # batch first
        outs = []
        if state is None:
            state = x.new_zeros(B, 6), x.new_zeros(B, 6)
        h, c = state
        # step by step
        for t in range(T):
            h, c = self.cell(x[:, t, :], (h, c))
            outs.append(self.fc(self.drop(h)))
        return torch.stack(outs, dim=1), (h, c)
"""
KEYWORD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(input_size=4, hidden_size=4)
        self.rnn = nn.RNNCell(4, 4)

    def forward(self, x):
        hx = torch.zeros(x.shape[0], 4)
        outs = []
        for i in range(0, x.size()[1]):
            step = x[:, i]
            hx = self.gru(step, hx=hx)
            outs += [hx]
        y = torch.stack(outs, dim=1)
        h = None
        for i in range(y.size(1)):
            h = self.rnn(y[:, i], h)
        return F.relu(y), h
"""
OWN_CELL = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 4)

    def forward(self, x, h):
        return torch.tanh(self.inner(torch.cat([x, h], dim=-1)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([Cell() for _ in range(2)])

    def forward(self, x):
        for cell in self.cells:
            h = torch.zeros_like(x[:, 0])
            states = []
            for t in range(x.size(1)):
                h = cell(x[:, t], h)
                states.append(h)
            x = torch.stack(states, dim=1)
        return x
"""
MAPS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.parts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.rounds = 2

    def forward(self, x):
        y = torch.stack([F.relu(self.drop(self.a(x[:, i]))) for i in range(x.size(1))], dim=-1)
        z = sum([part(x) for part in self.parts])
        for _ in range(self.rounds):
            z = self.a(z)
        out = []  # side by side
        size = z.shape
        for part in self.parts:
            out.append(part(x))
        return torch.cat(out, dim=-1).view(*size[:-1], -1), y, z
"""
EXPERTS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 5) for _ in range(3)])

    def forward(self, x):
        w = F.softmax(self.gate(x), dim=-1)
        outs = torch.stack([e(x) for e in self.experts], dim=-1)
        index = w.mean(dim=(0, 1)).argmax()
        loud = sum(w[..., i:i + 1] * e(x) for i, e in enumerate(self.experts))
        return (outs * w.unsqueeze(-2)).sum(-1), self.experts[index](x), loud
"""
WORDS = {
    "LSTM": (
        LSTM,
        ["outs, (h, c) = x.scan(self.cell, (h, c), readout=(self.drop, self.fc)).along(1)"],
    ),
    "KEYWORD": (
        KEYWORD,
        [
            "y, _ = x.scan(self.gru, torch.zeros(x.shape[0], 4)).along(1)",
            "h = y.scan(self.rnn, h).last(1)",
        ],
    ),
    "OWN_CELL": (OWN_CELL, ["x, _ = x.scan(cell, torch.zeros_like(x[:, 0])).along(1)"]),
    "MAPS": (
        MAPS,
        [
            "x.map((self.a, self.drop, F.relu)).along(1, out_dim=-1)",
            "x.split(self.parts).merge(Cat(dim=-1))",
            "z = x.split(self.parts).merge(sum)",
            "for _ in range(self.rounds):\n            z = z.through(self.a)\n",
        ],
    ),
    "EXPERTS": (
        EXPERTS,
        ["x.split(self.experts).merge(Stack(dim=-1))", "x.switch(index, self.experts)"],
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_words_that_stand_for_a_loop(porter, name):
    text, words = WORDS[name]
    ported = porter.text(HEAD + text)
    for word in words:
        assert word in ported
    for comment in (line.partition("#")[1:] for line in text.splitlines() if "#" in line):
        assert "".join(comment) in ported
    # A second port finds nothing more to do.
    assert porter.text(ported) == ported


@pytest.mark.parametrize("name", WORDS)
def test_bits_of_outputs_and_gradients(porter, name):
    import torch

    original, port = {"__name__": "m"}, {"__name__": "m"}
    exec(HEAD + WORDS[name][0], original)
    exec(porter.text(HEAD + WORDS[name][0]), port)
    torch.manual_seed(0)
    old, new = original["Net"](), port["Net"]()
    new.load_state_dict(old.state_dict())
    for training in (True, False):
        for shape in ((2, 5, 4), (2, 3, 4), (4, 3, 4), (1, 1, 4), (2, 5, 4)):
            x = torch.randn(shape)
            x[0, 0, 0] = -0.0
            expected, made = (observed(module.train(training), x) for module in (old, new))
            assert len(expected) == len(made)
            for one, two in zip(expected, made, strict=True):
                assert one.shape == two.shape
                assert one.stride() == two.stride()
                assert torch.equal(bits(one), bits(two))


def bits(tensor):
    import torch

    return tensor.detach().contiguous().view(torch.int32)


def observed(module, x):
    """Return all tensors of one training step: outputs and gradients."""
    import torch
    from torch.utils._pytree import tree_leaves

    module.zero_grad(set_to_none=True)
    x = x.clone().requires_grad_()
    torch.manual_seed(1)
    outputs = tree_leaves(module(x))
    sum((each * torch.randn_like(each)).sum() for each in outputs).backward()
    return [
        *outputs,
        x.grad,
        *(each.grad for each in module.parameters() if each.grad is not None),
    ]


KEPT = {
    "the state is joined otherwise": """
        def forward(self, x):
            h = torch.zeros_like(x[:, 0])
            outs = []
            for t in range(x.size(1)):
                h = self.cell(x[:, t], h)
                outs.append(h.unsqueeze(1))
            return torch.cat(outs, dim=1)
    """,
    "another length": """
        def forward(self, x, n):
            outs = []
            for t in range(n.size(1)):
                outs.append(self.a(x[:, t]))
            return torch.stack(outs, 1)
    """,
    "the value is bound in between": """
        def forward(self, x):
            T = x.size(1)
            x = self.pool(x)
            return torch.stack([self.a(x[:, t]) for t in range(T)], 1)
    """,
    "the number is bound in between": """
        def forward(self, x):
            T = x.size(1)
            if self.training:
                T = 2
            return torch.stack([self.a(x[:, t]) for t in range(T)], 1)
    """,
    "the value is changed in place": """
        def forward(self, x):
            T = x.size(1)
            x.transpose_(0, 1)
            return torch.stack([self.a(x[:, t]) for t in range(T)], 1)
    """,
    "the loop variable is used after it": """
        def forward(self, x):
            for t in range(x.size(1)):
                h = self.cell(x[:, t], h)
            return h * t
    """,
    "the state before the step is collected": """
        def forward(self, x, h):
            outs = []
            for t in range(x.size(1)):
                outs.append(h)
                h = self.cell(x[:, t], h)
            return torch.stack(outs, 1)
    """,
    "the other part of the state is collected": """
        def forward(self, x, h, c):
            outs = []
            for t in range(x.size(1)):
                h, c = self.lstm(x[:, t], (h, c))
                outs.append(c)
            return torch.stack(outs, 1)
    """,
    "the parts change places": """
        def forward(self, x, h, c):
            for t in range(x.size(1)):
                h, c = self.lstm(x[:, t], (c, h))
            return h
    """,
    "every step has a cell of its own": """
        def forward(self, x, h):
            for t in range(x.size(1)):
                h = self.mixers[t](x[:, t], h)
            return h
    """,
    "some modules are left out": """
        def forward(self, x):
            return torch.cat([layer(x) for layer in self.layers if layer is not self.a], 1)
    """,
    "something is in the list already": """
        def forward(self, x):
            outs = [x]
            for layer in self.layers:
                outs.append(layer(x))
            return torch.cat(outs, 1)
    """,
    "the list is read twice": """
        def forward(self, x):
            outs = [layer(x) for layer in self.layers]
            return torch.cat(outs, 1) / len(outs)
    """,
    "something is computed before": """
        def forward(self, x):
            outs = [layer(x) for layer in self.layers]
            return self.a(torch.rand_like(x)) + torch.stack(outs, 1)
    """,
    "the number of rounds is set by the object": """
        def forward(self, x):
            self.steps = self.steps + 1
            for _ in range(self.steps):
                x = self.a(x)
            return x
    """,
    "the context changes in every round": """
        def forward(self, x):
            for i in range(self.steps):
                x = self.mix(x, x * i)
            return x
    """,
    "an index that need not count from 0": """
        def forward(self, x, i):
            return self.layers[i](x)
    """,
}


@pytest.mark.parametrize("text", KEPT.values(), ids=list(KEPT))
def test_loops_that_stay_loops(porter, text):
    flow = porter.flow(text)
    for word in (".scan(", ".map(", ".split(", ".loop_body(", ".switch("):
        assert word not in flow
