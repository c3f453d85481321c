"""FlowModule: what is recorded, what is guarded, what is refused, and what the error notes say."""

from __future__ import annotations

import copy
import inspect
import linecache
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Add, Cat, Flow, FlowError, FlowModule, Graph, GraphError, call, subflow

pytestmark = pytest.mark.torch
THIS = Path(__file__)


def line_of(text: str) -> int:
    return next(
        n for n, line in enumerate(THIS.read_text().splitlines(), 1) if f"# {text}" in line
    )


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
    assert isinstance(Plain(), Graph)


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
    assert len(module._programs()) == 4


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
    filename = module._programs()[0].run.__code__.co_filename
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
    assert len(module._programs()) == 2


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


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda x: x if x.sum() > 0 else -x, "truth"),
        (lambda x: x * int(x.sum()), "integer"),
        (lambda x: x * x.sum().item(), "item"),
        (lambda x: x * float(x.mean()), "number"),
        (lambda x: x + torch.tensor(x.tolist()), "tolist"),
        (lambda x: [x for _ in range(x.argmax())], "integer"),
        (lambda x: f"{x.sum()}", "text"),
    ],
    ids=["if", "int", "item", "float", "tolist", "range", "format"],
)
def test_questions_about_tensor_values_are_refused_with_their_line(ask, what):
    class Asks(FlowModule):
        def flow(self, x):
            return ask(x)

    module = Asks()  # construction must not fail
    with pytest.raises(FlowError, match=what) as caught:
        module(torch.ones(3))
    assert str(caught.value).startswith(str(THIS))
    assert "x.through(function)" in str(caught.value)


def test_gradient_modes_are_refused():
    class Mode(FlowModule):
        def flow(self, x):
            torch._C._set_grad_enabled(False)
            return x * 2

    try:
        with pytest.raises(FlowError, match="gradient or autocast"):
            Mode()(torch.ones(3))
    finally:
        torch._C._set_grad_enabled(True)


def test_a_flow_kept_outside_is_refused():
    kept = []

    class Leaks(FlowModule):
        def flow(self, x):
            kept.append(x)
            return x * 2

    Leaks()(torch.ones(2))
    with pytest.raises(FlowError, match="outside the flow"):
        torch.relu(kept[-1])


def test_tags_and_using_are_checked():
    class Twice(FlowModule):
        def flow(self, x):
            a = x.through(torch.relu).tag("a")
            return a.through(torch.tanh).tag("a")  # second tag

    class Unknown(FlowModule):
        def flow(self, x):
            return x.using("nowhere").through(torch.add)  # unknown name

    with pytest.raises(FlowError, match=f":{line_of('second tag')}: tag `a` is already"):
        Twice()(torch.ones(2))
    with pytest.raises(
        FlowError, match=f":{line_of('unknown name')}: no value is tagged `nowhere`"
    ):
        Unknown()(torch.ones(2))


@pytest.mark.parametrize("last", [False, True])
def test_using_merges_the_value_with_tagged_ones(last):
    class Net(FlowModule):
        def flow(self, x):
            y = x.through(torch.sin).tag("low").through(torch.cos).tag("high").through(torch.exp)
            return y.using("high", "low").merge(Cat(dim=1), last=last)

    x = torch.randn(2, 3)
    low = torch.sin(x)
    high = torch.cos(low)
    tagged = [high, low]
    wanted = [*tagged, high.exp()] if last else [high.exp(), *tagged]
    assert torch.equal(Net()(x), torch.cat(wanted, dim=1))


def test_a_merge_takes_no_tagged_value_by_keyword():
    class Net(FlowModule):
        def flow(self, x):
            return x.tag("low").through(torch.cos).using(other="low").merge(Cat(dim=1))

    with pytest.raises(FlowError, match="merge has no parameter `other`"):
        Net()(torch.ones(1, 1))


def test_using_hands_over_tagged_values():
    class Uses(FlowModule):
        def __init__(self):
            super().__init__()
            self.bilinear = nn.Bilinear(4, 4, 4)

        def flow(self, x):
            x.tag("start")
            return x.through(torch.relu).using("start").through(self.bilinear)

    module, x = Uses(), torch.randn(2, 4)
    for _ in range(2):
        assert torch.equal(module(x), module.bilinear(torch.relu(x), x))


class Branchy(FlowModule):
    def __init__(self, wrong: int = 5) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, wrong)

    def flow(self, x: Flow) -> Flow:
        y = x.through(self.stem)
        return y.split(self.a, (self.b, torch.relu)).merge(Add())  # branchy split


@pytest.mark.parametrize("calls", [1, 2])
def test_a_failing_merge_names_every_branch(calls):
    module = Branchy()
    for _ in range(calls):
        with pytest.raises(RuntimeError) as caught:
            module(torch.randn(2, 4))
    (note,) = caught.value.__notes__
    split = f"the split at {THIS}:{line_of('branchy split')}"
    assert "node `add_1` (merge add) of Branchy" in note
    assert f"input 0 from `a`: float32[2, 4] (branch 1 of 2 of {split})" in note
    assert f"input 1 from `relu_1`: float32[2, 5] (branch 2 of 2 of {split})" in note


@pytest.mark.parametrize("mode", ["eager", "functional"])
def test_a_failing_node_names_its_tag_path_and_line(mode):
    class Inner(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            return x.through(self.fc).tag("features")  # failing node

    class Outer(FlowModule):
        def __init__(self):
            super().__init__()
            self.encoder = Inner()

        def flow(self, x):
            return (x * 2).through(self.encoder)  # outer line

    module = Outer()
    module(torch.randn(2, 4))
    weights = dict(module.named_parameters())
    run = module if mode == "eager" else lambda x: torch.func.functional_call(module, weights, x)
    with pytest.raises(RuntimeError) as caught:
        run(torch.randn(2, 3))
    inner, outer = caught.value.__notes__
    assert "node `fc` (Linear)" in inner
    assert "tag `features`" in inner
    assert f"written at {THIS}:{line_of('failing node')}" in inner
    assert "float32[2, 3]" in inner
    assert "node `encoder` (Inner) of Outer" in outer
    assert f"{THIS}:{line_of('outer line')}" in outer


def test_described_at_construction_where_nothing_is_asked():
    assert Branchy(4)._programs()
    assert "def forward" in Branchy(4).code

    class Asks(FlowModule):
        def flow(self, x):
            return x if x.dim() == 2 else x.flatten(1)

    module = Asks()
    assert not module._programs()
    with pytest.raises(GraphError, match=r"build\(example_input\)"):
        _ = module.code
    assert "first call" in str(module)
    module.build(torch.randn(2, 3))
    assert module._programs()
    assert torch.compile(module, fullgraph=True, backend="eager")(torch.randn(2, 3)).shape == (
        2,
        3,
    )


def test_description_has_no_side_effects(capsys):
    class Prints(FlowModule):
        def flow(self, x):
            print("hello")  # noqa: T201  # a user's flow
            return x * 2

    module = Prints()
    assert capsys.readouterr().out == ""
    module(torch.ones(2))
    assert capsys.readouterr().out == "hello\n"


def test_draws_happen_once_per_call_in_source_order():
    class Noisy(FlowModule):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def flow(self, x):
            a = torch.randn(x.size(0), 1)
            b = x.through(self.drop)
            return a * b + torch.rand_like(x)

    def plain(x, drop):
        a = torch.randn(x.size(0), 1)
        return a * drop(x) + torch.rand_like(x)

    module, x = Noisy(), torch.randn(3, 4)
    for seed in range(3):
        torch.manual_seed(seed)
        found, state = module(x), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(found, plain(x, module.drop))
        assert torch.equal(state, torch.get_rng_state())


def test_in_place_effects_on_inputs_are_kept():
    class Writes(FlowModule):
        def flow(self, x):
            view = x[:, :2]
            view += 1
            x[0] = 0
            return view

    module = Writes()
    for _ in range(2):
        x = torch.ones(2, 3)
        result = module(x)
        assert torch.equal(x, torch.tensor([[0.0, 0, 0], [2, 2, 1]]))
        assert result.data_ptr() == x.data_ptr()


def test_inputs_may_be_nests_and_objects():
    @dataclass
    class Batch:
        x: torch.Tensor
        scale: float

    class Nest(FlowModule):
        def flow(self, items, table, batch):
            total = items[0]
            for item in items[1:]:
                total = total + item
            return {"sum": total, "scaled": table["w"] * batch.x * batch.scale}

    module = Nest()
    for count in (2, 3, 2):
        items = [torch.randn(2) for _ in range(count)]
        w, x = torch.randn(2), torch.randn(2)
        found = module(items, {"w": w}, Batch(x, 3.0))
        assert torch.equal(found["sum"], sum(items[1:], items[0]))
        assert torch.equal(found["scaled"], w * x * 3.0)


def test_dataclass_outputs():
    @dataclass
    class Out:
        logits: torch.Tensor
        hidden: list[torch.Tensor] | None = None

    class Makes(FlowModule):
        def flow(self, x):
            return Out(logits=x * 2, hidden=[x + 1])

    module, x = Makes(), torch.randn(2)
    for _ in range(3):
        found = module(x)
        assert isinstance(found, Out)
        assert torch.equal(found.logits, x * 2)
        assert torch.equal(found.hidden[0], x + 1)


def test_subclass_overrides_flow_and_super_flow_records():
    class Base(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            return x.through(self.fc)

    class Child(Base):
        def flow(self, x):
            return super().flow(x) * 3

    class Kept(Base):
        def forward(self, x):
            return super().forward(x) - 1

    x = torch.randn(2, 4)
    for _ in range(2):
        child, kept = Child(), Kept()
        assert torch.equal(child(x), child.fc(x) * 3)
        assert torch.equal(kept(x), kept.fc(x) - 1)


def test_subflow_computes_outside_and_records_inside():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        @subflow
        def features(self, x, scale=1.0):
            """Compute features."""
            return x.through(self.body).through(torch.relu) * scale

        def flow(self, x):
            return self.features(x, scale=2.0).through(self.head)

    net, x = Net(), torch.randn(2, 4)
    for _ in range(2):
        assert torch.equal(net.features(x), torch.relu(net.body(x)) * 1.0)
        assert torch.equal(net(x), net.head(torch.relu(net.body(x)) * 2.0))
    assert net.features.__doc__ == "Compute features."


def test_a_module_called_in_a_flow_is_a_node():
    class Direct(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            return self.fc(x) + call(torch.sum, input=x)

    module, x = Direct(), torch.randn(2, 4)
    assert torch.equal(module(x), module.fc(x) + x.sum())
    assert 'run(m["fc"], x)' in module.code
    module.fc.register_forward_hook(lambda *_: torch.zeros(2, 4))
    assert torch.equal(module(x), torch.zeros(2, 4) + x.sum())


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
            mine._forget()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert nn.Module.__call__.__name__ == "_wrapped_call_impl"


def test_cat_of_branches_equals_torch_cat():
    class Cats(FlowModule):
        def flow(self, x):
            a, b = x.split(torch.relu, torch.tanh)
            return x.split(torch.relu, torch.tanh).merge(Cat(dim=1)) + torch.cat([a, b], 1)

    x = torch.randn(2, 3)
    both = torch.cat([torch.relu(x), torch.tanh(x)], 1)
    assert torch.equal(Cats()(x), both + both)


def test_parameter_lists_and_dicts_are_read_live():
    class Lists(FlowModule):
        def __init__(self):
            super().__init__()
            self.items = nn.ParameterList([nn.Parameter(torch.randn(2)) for _ in range(2)])
            self.table = nn.ParameterDict({"w": nn.Parameter(torch.randn(2))})

        def flow(self, x):
            return x * self.items[0] + self.items[1] * self.table["w"]

    module, x = Lists(), torch.randn(3, 2)
    for _ in range(2):
        with torch.no_grad():
            module.items[0].mul_(2)
        expected = x * module.items[0] + module.items[1] * module.table["w"]
        assert torch.equal(module(x), expected)


def test_modules_made_in_a_flow_may_hold_symbolic_sizes():
    class Resizes(FlowModule):
        def flow(self, x, y):
            y = nn.Upsample(size=x.size()[2:], mode="bilinear")(y)
            return x.through(nn.Softmax(dim=1)) + y

    module = Resizes()
    for side in (4, 6):
        x, y = torch.randn(1, 2, side, side), torch.randn(1, 2, 3, 3)
        expected = x.softmax(1) + F.interpolate(y, size=(side, side), mode="bilinear")
        for _ in range(2):
            assert torch.equal(module(x, y), expected)


def test_containers_of_inputs_go_through_stages():
    class Sum(nn.Module):
        def forward(self, items, scale=1.0):
            return sum(items[1:], items[0]) * scale

    class Whole(FlowModule):
        def __init__(self):
            super().__init__()
            self.sum = Sum()

        def flow(self, items, pair, table):
            total = items.through(self.sum, scale=2.0) + pair.through(self.sum)
            return total + table.through(lambda values: values["w"])

    module = Whole()
    for count in (2, 3, 2):
        items = [torch.randn(2) for _ in range(count)]
        pair, w = (torch.randn(2), torch.randn(2)), torch.randn(2)
        for _ in range(2):
            expected = sum(items[1:], items[0]) * 2.0 + (pair[0] + pair[1]) + w
            torch.testing.assert_close(module(items, pair, {"w": w}), expected)


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


def test_plans_are_bounded():
    class Flags(FlowModule):
        def flow(self, x, word):
            return x * len(word)

    module, x = Flags(), torch.ones(1)
    for n in range(1, 101):
        assert module(x, "a" * n).item() == n
    assert len(module._programs()) <= 64


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
