"""Plans of a FlowModule: which there are, what guards them, and the code that they are."""

from __future__ import annotations

import copy
import inspect
import linecache
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Add, Flow, FlowModule, Graph, GraphError, view
from flodl.tracing import patching as interception

pytestmark = pytest.mark.torch


class Plain(FlowModule):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.gain = 2.0

    def flow(self, x: Flow, mask: Flow | None = None, mode: str = "mul", times: int = 1) -> Flow:
        y = x.through(self.fc).tag("hidden")
        if mask is not None:
            y = y * mask
        if self.training:
            y = y + 1
        y = y * self.gain if mode == "mul" else y - self.gain
        return y * times


def test_forward_has_the_signature_of_flow():
    parameters = inspect.signature(Plain.forward).parameters
    assert list(parameters) == ["self", "x", "mask", "mode", "times"]
    assert parameters["mask"].default is None
    assert parameters["mode"].default == "mul"
    assert isinstance(Plain(), nn.Module)
    assert not isinstance(Plain(), Graph)


def test_each_combination_of_answers_is_a_plan_of_its_own():
    module = Plain()
    x, mask = torch.randn(2, 4), torch.rand(2, 4)
    base = module.fc(x)
    for _ in range(2):
        module.train()
        assert torch.equal(module(x), (base + 1) * 2.0 * 1)
        assert torch.equal(module(x, mask), (base * mask + 1) * 2.0 * 1)
        assert torch.equal(module(x, mode="sub", times=3), (base + 1 - 2.0) * 3)
        module.eval()
        assert torch.equal(module(x), base * 2.0 * 1)
        assert torch.equal(module(x, times=5), base * 2.0 * 5)
    # times is a number: it stays symbolic, so 1, 3 and 5 share plans.
    assert len(module._flodl_programs()) == 4


def test_setting_an_attribute_records_anew():
    module = Plain().eval()
    x = torch.randn(2, 4)
    module(x)
    module.gain = 5.0
    assert torch.equal(module(x), module.fc(x) * 5.0 * 1)
    module.fc = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert torch.equal(module(x), module.fc(x) * 5.0 * 1)


def test_code_is_readable_and_known_to_linecache():
    class Small(FlowModule):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            hidden = x.through(self.fc)
            B, C = hidden.size()
            return F.relu(hidden).view(B, 2, C // 2)

    module = Small()
    assert module.code == (
        "# when isinstance(x, torch.Tensor)\n"
        "def forward(self, x):\n"
        "    m = self._modules\n"
        '    hidden = run(m["fc"], x)\n'
        "    B, C = hidden.size()\n"
        "    hidden = F.relu(hidden)\n"
        "    hidden = hidden.view(B, 2, C // 2)\n"
        "    return hidden\n"
    )
    filename = module._flodl_programs()[0].run.__code__.co_filename
    linecache.checkcache()
    assert linecache.getlines(filename)[2].strip() == 'hidden = run(m["fc"], x)'


def test_sizes_stay_symbolic_until_python_branches_on_them():
    class Sized(FlowModule):
        def flow(self, x):
            n = x.size(0)
            x = x.reshape(n * 2, -1)
            return x + 1 if n > 3 else x - 1

    module = Sized()
    for n in (1, 2, 3, 4, 5, 6):
        x = torch.randn(n, 4)
        expected = x.reshape(n * 2, -1)
        assert torch.equal(module(x), expected + 1 if n > 3 else expected - 1)
    assert len(module._flodl_programs()) == 2


def test_a_size_from_inside_ties_the_plan_to_its_shapes():
    class Inner(FlowModule):
        def __init__(self):
            super().__init__()
            self.pool = nn.MaxPool1d(2)

        def flow(self, x):
            y = x.through(self.pool)
            return y.mean() if y.size(-1) > 2 else y.sum()

    module = Inner()
    for width in (4, 8, 4, 10):
        x = torch.randn(1, width)
        y = F.max_pool1d(x, 2)
        for _ in range(2):
            assert torch.equal(module(x), y.mean() if y.size(-1) > 2 else y.sum())


def test_description_of_a_parameter_that_a_comprehension_reads_needs_no_call():
    class Masked(FlowModule):
        def flow(self, x, mask=None):
            return sum(y if mask is None else y * mask for y in (x, x + 1))

    class Replaced(FlowModule):
        def flow(self, x, mask=None):
            mask = torch.relu(x)
            return sum(y if mask is None else y * mask for y in (x, x + 1))

    assert Masked()._flodl_programs()
    assert not Replaced()._flodl_programs()


@pytest.mark.slow
def test_described_at_construction_where_nothing_is_asked():
    class Branches(FlowModule):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def flow(self, x):
            return x.split(self.a, (self.b, torch.relu)).merge(Add())

    assert Branches()._flodl_programs()
    assert "def forward" in Branches().code

    class Asks(FlowModule):
        def flow(self, x):
            return x if x.dim() == 2 else x.flatten(1)

    module = Asks()
    assert not module._flodl_programs()
    with pytest.raises(GraphError, match=r"build\(example_input\)"):
        _ = module.code
    with pytest.raises(GraphError, match="first call"):
        view(module).flow_text()
    module.build(torch.randn(2, 3))
    assert module._flodl_programs()
    assert torch.compile(module, fullgraph=True, backend="eager")(torch.randn(2, 3)).shape == (
        2,
        3,
    )


def test_recording_in_threads_does_not_disturb_others():
    module = Plain(8)
    failures: list[str] = []

    def work(seed: int) -> None:
        other = nn.Linear(8, 8)
        mine = copy.deepcopy(module).rebuild().eval()
        for _ in range(30):
            x = torch.randn(2, 8)
            if not torch.equal(mine(x), mine.fc(x) * 2.0 * 1) or other(x).shape != (2, 8):
                failures.append(f"thread {seed}")
            mine.rebuild()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert nn.Module._call_impl.__name__ == "_call_impl"
    assert nn.Module._compiled_call_impl is None


def test_a_flow_is_described_without_touching_the_slot_that_every_subclass_shares(monkeypatch):
    """Setting `nn.Module.__call__` makes Python look at all modules that are loaded."""
    touched = []

    class Watching(type(nn.Module)):
        def __setattr__(cls, name, value):
            touched.append(name)
            super().__setattr__(name, value)

    class Watched(nn.Module, metaclass=Watching):
        pass

    monkeypatch.setattr(interception.nn, "Module", Watched)
    with interception.intercept_calls():
        assert touched == ["_call_impl", "_compiled_call_impl"]
    assert touched == ["_call_impl", "_compiled_call_impl"] * 2


def test_a_compiled_module_is_a_node_and_stays_compiled():
    seen = []

    def backend(graph, _inputs):
        seen.append(graph)
        return graph.forward

    class Twice(nn.Module):
        def forward(self, x):
            return x * 2 + 1

    class Holds(FlowModule):
        def __init__(self):
            super().__init__()
            self.twice = Twice()
            self.twice.compile(backend=backend)

        def flow(self, x):
            return self.twice(x).relu()

    torch.compiler.reset()
    module, x = Holds(), torch.randn(2, 4)
    for _ in range(2):
        assert torch.equal(module(x), (x * 2 + 1).relu())
    assert len(seen) == 1
    assert module.twice._compiled_call_impl is not None


def test_a_reassigned_parameter_may_become_none():
    def nothing(_x):
        return None

    class Reassigns(FlowModule):
        def flow(self, x, extra=None):
            extra = x.through(nothing)
            return x if extra is None else x + extra

    module, x = Reassigns(), torch.randn(2)
    for _ in range(2):
        assert torch.equal(module(x), x)


class Asserting(FlowModule):
    def flow(self, x):
        y = x * 2
        assert (y + 1).sum().shape == ()
        assert y.shape[0] < 9
        return y.relu()


def test_an_assert_in_a_test_is_rewritten_with_names_that_python_does_not_have():
    for rows in (2, 3):
        assert torch.equal(Asserting()(torch.ones(rows)), torch.full((rows,), 2.0))


def test_plans_are_bounded():
    class Flags(FlowModule):
        def flow(self, x, word):
            return x * len(word)

    module, x = Flags(), torch.ones(1)
    for n in range(1, 101):
        assert module(x, "a" * n).item() == n
    assert len(module._flodl_programs()) <= 64


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.rand, torch.empty])
def test_whole_sizes_make_tensors_while_values_are_known(make):
    class Makes(FlowModule):
        def flow(self, x, start=None):
            if start is None:
                start = make(x.size())
                start = make(x.shape, dtype=x.dtype) + make(*x.shape) + make(x.size(0), x.size(1))
            return x + start

    makes = Makes()
    assert makes(torch.ones(3, 2)).shape == (3, 2)
    assert makes(torch.ones(4, 2)).shape == (4, 2)


def test_equal_modules_share_the_code_of_their_dispatchers_and_guards():
    found = []
    for _ in range(2):
        module = Plain()
        module(torch.ones(2, 4))
        (plans,) = module._flodl_plans.values()
        guards = plans.programs[0].admission("self, x, mask, mode, times")
        found.append((plans.dispatch.__code__, plans.dispatch_plainly.__code__, guards.__code__))
    (one, plainly, guard), others = found
    assert one is plainly
    assert all(mine is other for mine, other in zip((one, plainly, guard), others, strict=True))
