"""Decorators around the generated forward: they see every call, with tensors, and never a description."""

import copy
import functools
import inspect
import pickle

import pytest
import torch
from torch import nn

from flodl import Flow, FlowError, FlowModule, on_forward, subflow

pytestmark = pytest.mark.torch

SEEN: list[tuple[str, str]] = []


def seeing(name):
    def decorate(forward):
        @functools.wraps(forward)
        def wrapper(self, *args, **kwargs):
            SEEN.append((name, type(args[0]).__name__))
            return forward(self, *args, **kwargs)

        return wrapper

    return decorate


def renamed(old, new):
    def decorate(forward):
        @functools.wraps(forward)
        def wrapper(self, *args, **kwargs):
            kwargs = {new if name == old else name: value for name, value in kwargs.items()}
            return forward(self, *args, **kwargs)

        return wrapper

    return decorate


def doubled(forward):
    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs) * 2

    return wrapper


class Doubled(FlowModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    @on_forward(seeing("outer"))
    @on_forward(renamed("factor", "mask"))
    @on_forward(doubled)
    @on_forward(seeing("inner"))
    def flow(self, x: Flow, mask: Flow | None = None, *more, scale=1.0, **named):
        """What it does."""
        h = x.through(self.body)
        if mask is not None:
            h = h * mask
        return h * scale


class Above(FlowModule):
    def __init__(self):
        super().__init__()
        self.part = Doubled()
        self.twice = nn.Sequential(self.part, self.part)

    def flow(self, x):
        h = x.through(self.part, x).through(self.twice)
        return self.part(h, factor=x)


class Plain(nn.Module):
    """What `Above` computes, written out."""

    def __init__(self, above):
        super().__init__()
        self.body = above.part.body

    def forward(self, x):
        h = self.body(x) * x * 2
        for _ in range(2):
            h = self.body(h) * 2
        return self.body(h) * x * 2


@pytest.fixture(autouse=True)
def _unseen():
    SEEN.clear()


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def test_every_call_passes_every_decorator_once_from_outside_to_inside(x):
    model = Doubled()
    for _ in range(3):
        SEEN.clear()
        assert torch.equal(model(x, factor=x), model.body(x) * x * 2)
        assert SEEN == [("outer", "Tensor"), ("inner", "Tensor")]


def test_in_a_flow_above_it_is_called_as_a_module(x):
    above = Above()
    plain = Plain(above)
    for _ in range(2):
        SEEN.clear()
        assert torch.equal(above(x), plain(x))
        assert SEEN == [("outer", "Tensor"), ("inner", "Tensor")] * 4


def test_decorators_are_given_what_looks_written():
    given = []

    class Net(FlowModule):
        @on_forward(lambda forward: given.append(forward) or forward)
        def flow(self, a: Flow, /, b=2, *rest, c, d=None, **named):
            """Its documentation."""
            return a * b * c

    forward = given[0]
    assert list(inspect.signature(forward).parameters) == [
        "self", "a", "b", "rest", "c", "d", "named"
    ]  # fmt: skip
    assert inspect.getsourcefile(forward) == __file__
    assert forward.__doc__ == "Its documentation."
    assert forward.__qualname__.endswith("Net.forward")
    assert Net()(torch.ones(2), 3, 7, c=2, e=1).tolist() == [6.0, 6.0]


def test_what_is_no_function_may_come_out():
    class Called:
        def __init__(self, forward):
            self.forward = forward

        def __get__(self, owner, kind=None):
            return self if owner is None else functools.partial(self.forward, owner)

    class Net(FlowModule):
        @on_forward(Called)
        def flow(self, x):
            return x * 3

    assert Net()(torch.ones(2)).tolist() == [3.0, 3.0]


def test_copies_keep_them(x):
    above = Above()
    expected = above(x)
    assert torch.equal(copy.deepcopy(above)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(above))(x), expected)


@pytest.mark.slow
def test_they_are_compiled_and_exported(x):
    above = Above()
    expected = above(x)
    assert torch.equal(torch.compile(above, backend="eager", fullgraph=True)(x), expected)
    assert torch.equal(torch.export.export(above, (x,)).module()(x), expected)


def test_a_class_below_inherits_them_and_its_own_flow_has_none(x):
    class Same(Doubled):
        pass

    class Other(Doubled):
        def flow(self, x):
            return x.through(self.body)

    same, other = Same(), Other()
    assert torch.equal(same(x), same.body(x) * 2)
    assert torch.equal(other(x), other.body(x))


@pytest.mark.parametrize("name", ["flow", "forward"])
def test_the_flow_above_is_not_called_without_its_decorators(name, x):
    class Below(Doubled):
        def flow(self, x):
            above = super().flow if name == "flow" else super().forward
            return above(x) + 1

    with pytest.raises(FlowError, match=rf"`{name}` of `Doubled` is called by name inside a flow"):
        Below()(x)


def test_the_forward_of_a_part_is_not_called_without_its_decorators(x):
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.part = Doubled()

        def flow(self, x):
            return self.part.forward(x)

    with pytest.raises(FlowError, match="call the module itself"):
        Net()(x)


def test_they_belong_to_the_flow():
    with pytest.raises(FlowError, match="`on_forward` stands above `helper`"):

        class Net(FlowModule):
            @on_forward(doubled)
            @subflow
            def helper(self, x):
                return x

            def flow(self, x):
                return self.helper(x)
