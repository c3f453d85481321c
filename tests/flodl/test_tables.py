"""Tables that a step returns: Python reads their keys, and each value is a step."""

import collections

import pytest
import torch
from torch import nn

from flodl import FlowModule, call

pytestmark = pytest.mark.torch
Options = collections.namedtuple("Options", ["a", "b"])  # noqa: PYI024


def table(x, n):
    found = {"a": x.sum(), "b": x.mean()} if n == 2 else {"c": x.sum()}
    return found if n < 4 else collections.OrderedDict(found)


def scaled(x, a=1, b=2, c=3):
    return x * a + b - c


def unpacked(x, t, _):
    return scaled(x, **t)


def looped(x, t, _):
    for key in t:
        x = x * 2 if key == "b" else x + t[key]
    return x


def looped_over_keys(x, t, _):
    for key in t.keys():  # noqa: SIM118
        x = x - t[key]
    return x


def looped_over_items(x, t, _):
    for key, value in t.items():
        x = x + value if key == "a" else x - value
    return x


def copied(x, t, _):
    return {**t, "x": x}, dict(**t), list(t), sorted(t)


def of_options(x, t, self):
    chosen = self.first if x.is_cuda else self.second
    return scaled(x, **chosen._asdict())


FUNCTIONS = (unpacked, looped, looped_over_keys, looped_over_items, copied, of_options)


class Parts(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.n = function, 2
        self.first, self.second = Options(1.0, 2.0), Options(3.0, 4.0)

    def forward(self, x):
        return self.function(x, table(x, self.n), self)


class Flows(FlowModule):
    def __init__(self, function):
        super().__init__()
        self.function, self.n = function, 2
        self.first, self.second = Options(1.0, 2.0), Options(3.0, 4.0)

    def flow(self, x):
        return self.function(x, call(table, x, self.n), self)


class AsStep(FlowModule):
    """A table that comes out of a method of a value that Python holds."""

    def __init__(self):
        super().__init__()
        self.options = Options(1.0, 2.0)

    def flow(self, x):
        return scaled(x, **call(self.options._asdict))


def require_equal(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert torch.equal(found, wanted)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key, value in wanted.items():
            require_equal(found[key], value)
    elif isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            require_equal(one, other)
    else:
        assert found == wanted


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_table_of_a_step_is_read_as_python_reads_it_also_when_its_keys_change(function):
    plain, flows = Parts(function), Flows(function)
    for number, n in enumerate((2, 2, 3, 2, 4, 3)):
        plain.n = flows.n = n
        x = torch.randn(2, 3, generator=torch.Generator().manual_seed(number))
        require_equal(flows(x), plain(x))


def test_table_of_a_held_object_is_unpacked_and_follows_it():
    flows, x = AsStep(), torch.ones(2)
    assert torch.equal(flows(x), scaled(x, 1.0, 2.0))
    flows.options = Options(5.0, 7.0)
    assert torch.equal(flows(x), scaled(x, 5.0, 7.0))


def test_table_with_other_keys_than_texts_is_looped_over():
    class Numbered(FlowModule):
        def flow(self, x):
            found = call(lambda each: {0: each, 1: each * 2}, x)
            return sum(found[key] * key for key in found)

    x = torch.randn(3)
    assert torch.equal(Numbered()(x), x * 2)
