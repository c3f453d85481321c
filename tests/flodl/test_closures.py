"""Functions that are made in a flow and handed on hold the values of the call at hand."""

import gc
import weakref
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing
from torch.utils.checkpoint import checkpoint  # noqa: E402

from flodl import FlowModule, call  # noqa: E402
from flodl.errors import FlowError  # noqa: E402

pytestmark = pytest.mark.torch


class Sublayer(nn.Module):
    """A module that is handed a function, as in the annotated transformer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x, function):
        return x + function(self.norm(x))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.sublayer, self.mix = Sublayer(), nn.Linear(4, 4)

    def forward(self, x, mask, scale=None):
        x = self.sublayer(x, lambda t: self.mix(t) * mask)
        x = self.sublayer(x, partial(torch.add, mask, alpha=2))

        def made(layer, power=mask):
            def inner(*values):
                return layer(*values) * (1 if scale is None else scale) + power

            return inner

        if self.training:
            return checkpoint(made(self.mix), x, use_reentrant=False)
        return made(self.mix)(x)


class Described(FlowModule):
    def __init__(self):
        super().__init__()
        self.sublayer, self.mix = Sublayer(), nn.Linear(4, 4)

    def flow(self, x, mask, scale=None):
        x = x.through(self.sublayer, lambda t: self.mix(t) * mask)
        x = x.through(self.sublayer, partial(torch.add, mask, alpha=2))

        def made(layer, power=mask):
            def inner(*values):
                return layer(*values) * (1 if scale is None else scale) + power

            return inner

        if self.training:
            return call(checkpoint, made(self.mix), x, use_reentrant=False)
        return call(made(self.mix), x)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("has_scale", [True, False])
def test_a_closure_is_made_in_every_call(is_training, has_scale):
    torch.manual_seed(0)
    plain, described = Plain().train(is_training), Described().train(is_training)
    described.load_state_dict(plain.state_dict())
    for size in (2, 3, 2, 5):
        x = torch.randn(size, 4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        mask = torch.rand(size, 4)
        scale = torch.rand(()) if has_scale else None
        expected, found = plain(x, mask, scale), described(y, mask, scale)
        assert torch.equal(expected, found)
        expected.square().sum().backward()
        found.square().sum().backward()
        assert torch.equal(x.grad, y.grad)
    assert len(described._flodl_programs()) == 1
    for one, two in zip(plain.parameters(), described.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


def test_a_copy_calls_its_own_layers():
    import copy

    one = Described()
    one(torch.ones(1, 4), torch.ones(1, 4))
    two = copy.deepcopy(one)
    with torch.no_grad():
        two.mix.weight.zero_()
        two.mix.bias.zero_()
        two.sublayer.norm.weight.zero_()
        two.sublayer.norm.bias.zero_()
    mask = torch.full((1, 4), 3.0)
    # sublayer: x + 0 * mask; then x + (mask + 2 * 0); then 0 * 1 + mask
    assert torch.equal(two(torch.ones(1, 4), mask), mask)
    assert not torch.equal(one(torch.ones(1, 4), mask), mask)


def test_a_function_that_calls_itself():
    class Net(FlowModule):
        def flow(self, x, step):
            def down(value, times):
                return value if times == 0 else down(value - step, times - 1)

            return call(torch.utils.checkpoint.checkpoint, down, x, 3, use_reentrant=False)

    net = Net()
    for step in (1.0, 2.0):
        found = net(torch.full((2,), 10.0), torch.tensor(step))
        assert torch.equal(found, torch.full((2,), 10 - 3 * step))


def test_functions_that_need_each_other():
    class Net(FlowModule):
        def flow(self, x):
            def even(n):
                return x if n == 0 else odd(n - 1)

            def odd(n):
                return -x if n == 0 else even(n - 1)

            return call(checkpoint, even, 3, use_reentrant=False)

    net = Net()
    for value in (1.0, 2.0):
        assert net(torch.full((2,), value)).tolist() == [-value] * 2


class Keeper(nn.Module):
    """A module that keeps the function it is given."""

    def forward(self, function, x):
        self.kept = function
        return function(x)


def test_a_variable_that_changes_later_is_seen_later():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.keeper = Keeper()

        def flow(self, x):
            factor = x.sum()
            y = call(self.keeper, lambda t: t * factor, x)
            factor = factor + 1
            return y

    net = Net()
    for _ in range(2):
        x = torch.full((2,), 3.0)
        assert net(x).tolist() == [18.0, 18.0]
        assert net.keeper.kept(x).tolist() == [21.0, 21.0]


def test_functions_of_a_loop_share_its_variable():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

        def flow(self, x):
            for layer in self.layers:
                x = call(checkpoint, lambda t: layer(t).relu(), x, use_reentrant=False)  # noqa: B023
            return x

    torch.manual_seed(0)
    net = Net()
    for size in (2, 3, 2):
        x = torch.randn(size, 2)
        expected = x
        for layer in net.layers:
            expected = layer(expected).relu()
        assert torch.equal(net(x), expected)
    assert "constant" not in net.code


def test_a_function_that_sets_a_variable_is_refused():
    class Net(FlowModule):
        def flow(self, x):
            count = 0

            def counting(t):
                nonlocal count
                count += 1
                return t

            y = call(checkpoint, counting, x, use_reentrant=False)
            return y * count

    with pytest.raises(FlowError, match="`counting` sets a variable of the flow"):
        Net()(torch.ones(2))


def counted(function):
    """Return the function with a count of its calls, as a mock or a decorator keeps one."""
    calls = 0

    def wrapped(t):
        nonlocal calls
        calls += 1
        return function(t) * calls

    return wrapped


OUTSIDE = counted(torch.relu)


def test_function_with_a_variable_it_does_not_share_with_the_flow_is_a_step(monkeypatch):
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.kept = counted(torch.tanh)

        def flow(self, x):
            return x.through(nn.functional.gelu).through(OUTSIDE).through(self.kept)

    gc.unfreeze()
    monkeypatch.setattr(nn.functional, "gelu", counted(torch.sigmoid))
    try:
        net, x = Net(), torch.ones(2)
        found = [net(x) for _ in range(3)]
    finally:
        gc.freeze()
    for count, each in enumerate(found, start=1):
        expected = torch.tanh(torch.relu(torch.sigmoid(x) * count) * count) * count
        assert torch.equal(each, expected)


def test_a_layer_that_a_step_has_made_is_called():
    class Net(FlowModule):
        def flow(self, x):
            layer = call(lambda width: nn.Linear(width, 2), x.shape[1])
            return x.through(layer), layer.weight

    net = Net()
    for width in (3, 3, 5):
        torch.manual_seed(width)
        expected = nn.Linear(width, 2)
        torch.manual_seed(width)
        x = torch.ones(1, width)
        out, weight = net(x)
        assert torch.equal(out, expected(x))
        assert torch.equal(weight, expected.weight)


def test_a_hook_holds_the_values_of_its_call():
    class Net(FlowModule):
        def flow(self, x, factor):
            y = x * 2
            y.register_hook(lambda gradient: gradient * factor)
            return y + 1

    net = Net()
    for factor in (3.0, 5.0):
        x = torch.ones(2, requires_grad=True)
        net(x, torch.tensor(factor)).sum().backward()
        assert x.grad.tolist() == [2 * factor] * 2


def test_a_model_whose_flow_hands_on_its_methods_is_freed():
    class Handing(FlowModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def helper(self, t):
            return t * 2

        def flow(self, x):
            return call(self.helper, x.through(lambda t: self.layer(t) + 1))

    model = Handing()
    model(torch.ones(2))
    remembered = weakref.ref(model)
    del model
    gc.collect()
    assert remembered() is None
