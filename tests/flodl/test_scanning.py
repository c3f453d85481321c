"""Words for parts of a value: scans, maps along a dimension, lists of branches, loops with a context."""

import copy
import pickle

import pytest
import torch
from torch import nn

from flodl import Add, Cat, Flow, FlowBuilder, FlowError, FlowModule, Stack

pytestmark = pytest.mark.torch


def bits(tensor):
    """Return the bits of a tensor: a negative zero is no zero."""
    return tensor.detach().contiguous().view(torch.int32)


def results(module, x, seed=0):
    """Return outputs, input gradient and parameter gradients of one step, all tensors, by their bits."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    torch.manual_seed(seed)
    outputs = module(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum((each * torch.randn_like(each)).sum() for each in outputs).backward()
    grads = [each.grad for each in module.parameters()]
    return [bits(each) for each in (*outputs, x.grad, *grads)]


def assert_twins(flow, plain, *sizes):
    """Compare a flow with a plain module of the same parameters, twice for every size, in both modes."""
    plain.load_state_dict(flow.state_dict())
    for training in (True, False):
        flow.train(training)
        plain.train(training)
        for size in (*sizes, *sizes):
            x = torch.randn(size)
            x.view(-1)[0] = -0.0
            for new, old in zip(results(flow, x), results(plain, x), strict=True):
                assert torch.equal(new, old)


def twins(parts, flow, forward):
    """Make a flow and a plain module with the same layers."""

    def setup(self):
        super(type(self), self).__init__()
        for name, make in parts.items():
            setattr(self, name, make())

    described = type("Described", (FlowModule,), {"__init__": setup, "flow": flow})()
    plain = type("Plain", (nn.Module,), {"__init__": setup, "forward": forward})()
    return described, plain


# ---- scan ------------------------------------------------------------------------------------------


CELLS = {
    "cell": lambda: nn.GRUCell(4, 4),
    "lstm": lambda: nn.LSTMCell(4, 4),
    "head": lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)),
}
SEQUENCES = [(2, 5, 4), (3, 1, 4), (1, 7, 4)]


def test_scan_is_the_loop_over_time():
    def flow(self, x: Flow):
        return x.scan(self.cell, x.new_zeros(x.size(0), 4)).along(1)

    def forward(self, x):
        h, outputs = x.new_zeros(x.size(0), 4), []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            outputs.append(h)
        return torch.stack(outputs, 1), h

    described, plain = twins(CELLS, flow, forward)
    # What is not called has no gradient.
    del described.lstm, described.head, plain.lstm, plain.head
    assert_twins(described, plain, *SEQUENCES)
    assert described.code.count("def forward") <= 2  # one per mode, none per length


def test_a_state_of_two_parts_puts_out_the_first():
    def flow(self, x: Flow):
        h = c = x.new_zeros(x.size(0), 4)
        outputs, (h, c) = x.scan(self.lstm, (h, c), readout=self.head).along(1, out_dim=0)
        return outputs, h, c

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), 4)
        outputs = []
        for t in range(x.size(1)):
            h, c = self.lstm(x[:, t, :], (h, c))
            outputs.append(self.head(h))
        return torch.stack(outputs), h, c

    described, plain = twins(CELLS, flow, forward)
    del described.cell, plain.cell
    assert_twins(described, plain, *SEQUENCES)


def test_the_last_state_alone():
    def flow(self, x: Flow):
        return x.scan(self.cell, None).last(0)

    def forward(self, x):
        h = None
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
        return h

    described, plain = twins({"cell": CELLS["cell"]}, flow, forward)
    assert_twins(described, plain, *SEQUENCES)


class Nothing(nn.Module):
    """A cell whose gradient for its input is a negative zero."""

    def forward(self, x, h):
        return h + x * -0.0


def test_gradients_of_slices_add_up_to_the_same_zeros():
    def flow(self, x: Flow):
        return x.scan(self.cell, x.new_zeros(x.size(0), 4)).last(1)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 4)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return h

    described, plain = twins({"cell": Nothing}, flow, forward)
    for size in SEQUENCES:
        grads = []
        for module in (described, plain):
            x = torch.ones(size, requires_grad=True)
            module(x).sum().backward()
            grads.append(bits(x.grad))
        assert torch.equal(*grads)


def test_a_sequence_of_no_steps():
    class Net(FlowModule):
        def __init__(self, word):
            super().__init__()
            self.cell, self.word = nn.GRUCell(4, 4), word

        def flow(self, x, h):
            scan = x.scan(self.cell, h)
            return scan.last(1) if self.word == "last" else scan.along(1)[0]

    h = torch.ones(2, 4)
    assert torch.equal(Net("last")(torch.ones(2, 0, 4), h), h)
    with pytest.raises(RuntimeError, match="non-empty"):
        Net("along")(torch.ones(2, 0, 4), h)


@pytest.mark.parametrize("pack", [tuple, list])
def test_a_state_stays_the_kind_of_container_that_it_is(pack):
    seen = []

    class Cell(nn.Module):
        def forward(self, x, state):
            seen.append(type(state))
            h, c = state
            return torch.stack((h + x, c * x))  # a tensor of two parts, as unpacking takes it

    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.cell = Cell()

        def flow(self, x):
            h = c = torch.ones(2, 4)
            _, (h, c) = x.scan(self.cell, pack((h, c))).along(1)
            return h, c

    h, c = Net()(torch.full((2, 3, 4), 2.0))
    assert seen == [pack] * 3
    assert torch.equal(h, torch.full((2, 4), 7.0))
    assert torch.equal(c, torch.full((2, 4), 8.0))


class Scanner(FlowModule):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)

    def flow(self, x):
        h = c = x.new_zeros(x.size(0), 4)
        outputs, _ = x.scan(self.cell, (h, c)).along(1)
        return outputs


def test_scans_are_copied_pickled_exported_and_compiled():
    module, x = Scanner(), torch.randn(2, 5, 4)
    expected = module(x)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), expected)
    assert torch.equal(torch.export.export(module, (x,)).module()(x), expected)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), expected)


def test_hooks_of_a_cell_run_at_every_step():
    module, seen = Scanner(), []
    module(torch.randn(2, 5, 4))
    module.cell.register_forward_hook(lambda *_: seen.append(1))
    module(torch.randn(2, 3, 4))
    assert len(seen) == 3


def test_a_failing_step_says_which_one_it_is():
    class Cell(nn.Module):
        def forward(self, x, state):
            if state > 1:
                raise ValueError("too much")
            return state + 1

    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.cell = Cell()

        def flow(self, x):
            return x.scan(self.cell, torch.zeros(())).last(1)

    with pytest.raises(ValueError, match="too much") as caught:
        Net()(torch.ones(1, 5))
    assert "in step 2 of a scan along dimension 1" in caught.value.__notes__


# ---- maps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "out_dim"), [(1, None), (0, 1), (-1, 0)])
def test_map_along_a_dimension(dim, out_dim):
    def flow(self, x: Flow):
        return x.map((self.a, torch.relu)).along(dim, out_dim=out_dim)

    def forward(self, x):
        parts = [torch.relu(self.a(x.select(dim, i))) for i in range(x.size(dim))]
        return torch.stack(parts, dim if out_dim is None else out_dim)

    assert_twins(*twins({"a": lambda: nn.Linear(4, 4)}, flow, forward), (4, 4, 4), (4, 4, 4))


def test_a_map_along_a_dimension_as_a_value():
    layer, x = nn.Linear(4, 4), torch.randn(2, 3, 4)
    graph = FlowBuilder.new().map(layer).along(1, out_dim=0).build()
    assert torch.equal(graph(x), torch.stack([layer(x[:, i]) for i in range(3)]))


def test_words_that_contradict_each_other():
    class Net(FlowModule):
        def __init__(self, describe):
            super().__init__()
            self.a, self.describe = nn.Linear(4, 4), describe

        def flow(self, x):
            return self.describe(self, x)

    wrong = {
        "is x.through": lambda self, x: x.map(self.a).batched().along(1),
        "drops what is read out": lambda self, x: x.scan(self.a, x, readout=self.a).last(1),
        "ends with for_n": lambda self, x: x.loop_body(self.a, x).while_cond(self.a, 3),
        "negative number": lambda self, x: x.loop_body(self.a).for_n(-1),
    }
    for message, describe in wrong.items():
        with pytest.raises(FlowError, match=message) as caught:
            Net(describe)(torch.ones(2, 3, 4))
        assert "test_scanning.py:" in str(caught.value)


# ---- routing by a value ----------------------------------------------------------------------------


class Routed(FlowModule):
    def __init__(self, count=3):
        super().__init__()
        self.router = nn.Linear(4, count)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))

    def flow(self, x):
        scores = x.through(self.router)
        return x.switch(scores.mean(0).argmax(), self.experts), x.gate(scores, *self.experts)


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_computed_already_routes(count):
    if count == 1:
        with pytest.raises(FlowError, match="gate needs at least two stages"):
            Routed(1)(torch.randn(2, 4))
        return
    module = Routed(count)
    seen = set()
    for _ in range(20):
        x = torch.randn(2, 4)
        chosen, mixed = module(x)
        scores = module.router(x)
        index = scores.mean(0).argmax()
        seen.add(int(index))
        assert torch.equal(chosen, module.experts[index](x))
        expected = sum(scores[:, i : i + 1] * each(x) for i, each in enumerate(module.experts))
        torch.testing.assert_close(mixed, expected)
    assert len(seen) > 1
    assert module.code.count("def forward") == 1


def test_a_switch_over_a_list_of_one_module():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList([nn.Linear(4, 4)])

        def flow(self, x):
            return x.switch(x.sum(1).argmax() * 0, self.experts)

    net, x = Net(), torch.randn(2, 4)
    assert torch.equal(net(x), net.experts[0](x))


def test_values_for_a_router_that_is_none():
    class Net(FlowModule):
        def flow(self, x):
            return x.gate(x, torch.relu, torch.tanh, memory=x)

    with pytest.raises(FlowError, match="they are for a router"):
        Net()(torch.ones(2, 2))


# ---- lists of branches, loops with a context --------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("op", "plain_op"),
    [
        (Add(), lambda parts: sum(parts[1:], start=parts[0])),
        (Cat(dim=1), lambda parts: torch.cat(parts, 1)),
        (Stack(dim=1), lambda parts: torch.stack(parts, 1)),
        (sum, sum),
    ],
    ids=["add", "cat", "stack", "sum"],
)
def test_branches_of_a_list_of_modules_of_any_length(count, op, plain_op):
    def flow(self, x: Flow):
        return x.split(self.parts).merge(op)

    def forward(self, x):
        return plain_op([part(x) for part in self.parts])

    parts = {"parts": lambda: nn.ModuleList(nn.Linear(4, 4) for _ in range(count))}
    assert_twins(*twins(parts, flow, forward), (2, 4), (5, 4))


def test_no_branches_at_all():
    class Net(FlowModule):
        def __init__(self, op):
            super().__init__()
            self.parts, self.op = nn.ModuleList(), op

        def flow(self, x):
            return x + x.split(self.parts).merge(self.op)

    assert torch.equal(Net(sum)(torch.ones(2)), torch.ones(2))
    with pytest.raises(ValueError, match="non-empty"):
        Net(Cat())(torch.ones(2))


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_every_turn_of_a_loop_gets_the_same_context(turns):
    def flow(self, x: Flow):
        h = x.through(self.start)
        return h.loop_body(self.mix, x).for_n(turns)

    def forward(self, x):
        h = self.start(x)
        for _ in range(turns):
            h = self.mix(h, x)
        return h

    parts = {"start": lambda: nn.Linear(4, 4)}
    if turns:
        parts["mix"] = lambda: nn.Bilinear(4, 4, 4)
    else:
        parts["mix"] = nn.Identity
    assert_twins(*twins(parts, flow, forward), (2, 4), (5, 4))
