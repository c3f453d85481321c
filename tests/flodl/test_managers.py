"""Context managers that a step has made: entered and left around the same nodes, in every call."""

import contextlib

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowModule, call  # noqa: E402
from flodl.errors import FlowError  # noqa: E402

pytestmark = pytest.mark.torch


class Noted:
    def __init__(self, log, swallows=False):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("enter")
        return len(self.log)

    def __exit__(self, kind, error, trace):
        self.log.append("leave" if kind is None else kind.__name__)
        return self.swallows


class Net(FlowModule):
    def __init__(self, log, swallows=False):
        super().__init__()
        self.a, self.log, self.swallows = nn.Linear(3, 3), log, swallows
        self.seen = 0

    def flow(self, x):
        with call(Noted, self.log, self.swallows) as count:
            y = x.through(self.a)
        return y * count


def test_it_is_entered_and_left_in_every_call():
    log = []
    net = Net(log)
    for count in (1, 3, 5):
        x = torch.ones(2, 3)
        assert torch.equal(net(x), net.a(x) * count)
    assert log == ["enter", "leave"] * 3
    assert "with entered(" in net.code


def test_it_hears_of_an_error():
    log = []
    net = Net(log)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            net(torch.ones(2, 4))
        net(torch.ones(2, 3))
    assert log == ["enter", "RuntimeError", "enter", "leave"] * 2


@pytest.mark.parametrize("is_recorded", [False, True])
def test_it_may_not_end_an_error(is_recorded):
    net = Net([], swallows=True)
    if is_recorded:
        net(torch.ones(2, 3))
    with pytest.raises(
        FlowError, match="the context manager Noted of a `with` block ended an error"
    ):
        net(torch.ones(2, 4))


def test_a_decision_inside_is_refused():
    class Decides(FlowModule):
        def flow(self, x):
            with call(contextlib.nullcontext):
                if x.sum().through(bool):
                    x = x + 1
            return x

    with pytest.raises(FlowError, match="inside a `with` block whose context a step has made"):
        Decides()(torch.ones(2))


def test_a_decision_before_or_after_is_fine():
    class Decides(FlowModule):
        def __init__(self, log):
            super().__init__()
            self.log = log

        def flow(self, x):
            if (x.sum() > 0).through(bool):
                x = x * 2
            with call(Noted, self.log) as count:
                x = x + count
            if (x.sum() > 10).through(bool):
                x = x - 1
            return x

    log = []
    net = Decides(log)
    for turn, value in enumerate((1.0, -1.0, 8.0, -9.0, 1.0, 30.0, -30.0)):
        x = torch.full((2,), value)
        expected = x * 2 if value > 0 else x
        expected = expected + 2 * turn + 1
        expected = expected - 1 if expected.sum() > 10 else expected
        assert torch.equal(net(x), expected)
    assert log == ["enter", "leave"] * 7


def test_what_it_changes_on_the_module_is_read_anew():
    class Changes(FlowModule):
        def __init__(self):
            super().__init__()
            self.factor, self.name = 1, "one"

        @contextlib.contextmanager
        def scaled(self, by):
            before = self.factor, self.name
            self.factor, self.name = by, "scaled"
            yield
            self.factor, self.name = before

        def flow(self, x):
            before = x * self.factor
            with call(self.scaled, x.sum()):
                inside = x * self.factor + (100 if self.name == "one" else 0)
            return before, inside, x * self.factor

    net = Changes()
    for value in (1.0, 2.0):
        x = torch.full((2,), value)
        before, inside, after = net(x)
        assert torch.equal(before, x)
        assert torch.equal(inside, x * x.sum())
        assert torch.equal(after, x)


def test_gradient_modes_that_it_switches_hold():
    class Switches(FlowModule):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)

        @contextlib.contextmanager
        def quiet(self):
            with torch.no_grad():
                yield

        def flow(self, x):
            with call(self.quiet):
                y = x.through(self.a)
            return y, x.through(self.a)

    net = Switches()
    for _ in range(2):
        y, z = net(torch.ones(2, 3))
        assert not y.requires_grad
        assert z.requires_grad


def test_a_method_that_is_a_step_may_not_fill_its_argument():
    class Fills(FlowModule):
        def fill(self, x, seen):
            seen.append(x)
            return x

        def flow(self, x):
            seen = []
            x = call(self.fill, x, seen)
            return x, seen

    with pytest.raises(FlowError, match="`fill` is one step of the flow and changes a list"):
        Fills()(torch.ones(2))
