"""Shortening never changes what is computed: cases in which a careless rewrite would."""

import pytest

from tests.porter.test_patterns import assert_same


def run_both(porter, method, *, training):
    """Run a forward and its port on the same input, twice; return the text of the port."""
    import torch

    before = porter.around(method)
    after = porter.text(before)
    assert after != before
    results = []
    for text in (before, after):
        space = {"__name__": "case"}
        exec(text, space)  # the texts are our own
        torch.manual_seed(0)
        net = space["Net"]().train(training)
        calls = []
        net.a.register_forward_hook(lambda *_, calls=calls: calls.append("a"))
        net.b.register_forward_hook(lambda *_, calls=calls: calls.append("b"))
        inputs = [torch.randn(4, 4) for _ in range(2)]
        made = [net(tensor.clone()) for tensor in inputs]
        results.append((made, calls))
    (old, old_calls), (new, new_calls) = results
    assert_same(old, new)
    assert old_calls == new_calls
    return porter.flow(method)


@pytest.mark.torch
@pytest.mark.parametrize("training", [True, False])
def test_what_always_ran_is_not_moved_under_a_condition(porter, training):
    method = """
        def forward(self, x):
            h = self.a(x)
            if self.training:
                y = self.b(h)
            else:
                y = x
            return self.c(x) + y
    """
    text = run_both(porter, method, training=training)
    assert "h = x.through(self.a)\n" in text


@pytest.mark.torch
@pytest.mark.parametrize("training", [True, False])
def test_a_pair_under_a_condition_stays_a_pair(porter, training):
    method = """
        def forward(self, x):
            h = self.a(x)
            if self.training:
                return h, x
            return h
    """
    text = run_both(porter, method, training=training)
    assert "return (h, x) if self.training else h" in text


@pytest.mark.torch
def test_a_size_is_read_before_the_tensor_is_reshaped(porter):
    method = """
        def forward(self, x):
            size = x.shape
            y = x.unsqueeze_(0)
            y = y.view(size)
            return self.a(y)
    """
    text = run_both(porter, method, training=False)
    assert "size = x.shape" in text


@pytest.mark.torch
@pytest.mark.parametrize("training", [True, False])
def test_conditions_among_several_stay_one_below_the_other(porter, training):
    method = """
        def forward(self, x):
            if self.steps == 1:
                x = self.a(x)
            elif self.training:
                x = self.b(x)
            else:
                x = self.c(x)
            return self.head(x)
    """
    text = run_both(porter, method, training=training)
    assert "elif self.training:" in text


@pytest.mark.torch
def test_a_keyword_keeps_its_spacing_when_a_value_moves_into_it(porter):
    method = """
        def forward(self, x):
            h = self.a(x)
            input = h.neg()
            return F.linear(weight=h, input=input)
    """
    text = run_both(porter, method, training=False)
    assert "input=h.neg()" in text


def test_comments_stay_with_the_statements_that_become_one(porter):
    text = porter.flow(
        """
        def forward(self, x):
            # first
            x = self.a(x)
            # only sometimes
            if self.training:
                x = self.b(x)  # with noise
            # last
            return self.head(x)
        """
    )
    lines = [line.strip() for line in text.splitlines()]
    first, sometimes, last = (
        lines.index(f"# {word}") for word in ("first", "only sometimes", "last")
    )
    assert lines[sometimes + 1].startswith(".through(self.b if self.training else ())")
    assert "# with noise" in lines[sometimes + 1]
    assert first < sometimes < last


UNET = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.mix = nn.Bilinear(4, 4, 4)

    def forward(self, x):
        low = self.a(x)
        high = self.b(low)
        y = self.mix(self.a(high), high)
        y = low + self.b(y)
        return self.a(y)


class Above(Base):
    def forward(self, x):
        low = super().forward(x)
        high = self.b(low)
        y = self.mix(self.a(high), high)
        return self.mix(y, low)

    def twice(self, x):
        low = self.a(x)
        high = self.b(low)
        y = self.mix(self.a(high), high)
        return self.mix(y, low)


class Siamese(Above):
    def forward(self, x):
        return self.twice(x) * self.twice(-x)
"""


@pytest.mark.torch
@pytest.mark.parametrize("name", ["Base", "Above", "Siamese"])
def test_tags_are_given_once_however_flows_stand_in_each_other(porter, name):
    import torch

    made = porter.text(UNET)
    assert made.count('.tag("low")') == 1
    assert '.using("low").merge(Add(), last=True)' in made
    results = []
    for text in (UNET, made):
        space = {"__name__": "case"}
        exec(text, space)  # the texts are our own
        torch.manual_seed(0)
        net = space[name]()
        x = torch.randn(3, 4)
        out = [net(x) for _ in range(2)]
        out[-1].sum().backward()
        results.append((out, [parameter.grad for parameter in net.parameters()]))
    for old, new in zip(*results, strict=True):
        assert_same(old, new)


GROWN = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x, future=0):
        outputs = []
        for step in x.split(1, dim=1):
            outputs += [self.a(step)]
        for i in range(future):
            outputs += [self.a(outputs[-1])]
        outputs = torch.cat(outputs, dim=1)
        return outputs
"""


def test_a_list_that_grows_by_lists_is_no_tensor(porter):
    assert "        return torch.cat(outputs, dim=1)\n" in porter.text(GROWN)
