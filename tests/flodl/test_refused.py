"""What a flow refuses, and the notes of errors: the line, the tag, every branch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from flodl import Add, Cat, Flow, FlowError, FlowModule

pytestmark = pytest.mark.torch

THIS = Path(__file__)


def line_of(text: str) -> int:
    return next(
        n for n, line in enumerate(THIS.read_text().splitlines(), 1) if f"# {text}" in line
    )


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


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


@pytest.mark.parametrize(
    ("function", "stage"),
    [
        (Reverse.apply, Reverse.apply),
        (
            lambda x: checkpoint(torch.tanh, x, use_reentrant=False),
            partial(checkpoint, torch.tanh, use_reentrant=False),
        ),
    ],
    ids=["autograd.Function", "checkpoint"],
)
def test_flow_hands_proxy_to_c_code_error_names_line_and_step(function, stage):
    class Handing(FlowModule):
        def flow(self, x):
            return function(x)

    class Staged(FlowModule):
        def flow(self, x):
            return x.through(stage)

    # From torch 2.14 on, an autograd.Function calls its forward with the proxy, in another mode.
    with pytest.raises(FlowError, match=r"takes tensors alone|under another mode") as caught:
        Handing()(torch.ones(3))
    assert str(caught.value).startswith(str(THIS))
    assert "x.through(function)" in str(caught.value)
    torch.testing.assert_close(Staged()(torch.ones(3)), function(torch.ones(3)))


def test_flow_raises_an_error_of_its_own_type_error_stays():
    class Wrong(FlowModule):
        def flow(self, x):
            message = "a Flow is no number"
            raise TypeError(message)

    with pytest.raises(TypeError, match="is no number"):
        Wrong()(torch.ones(3))


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
    class Leaks(FlowModule):
        def flow(self, x):
            type(self).kept = x
            return x * 2

    Leaks()(torch.ones(2))
    with pytest.raises(FlowError, match="outside the flow"):
        torch.relu(Leaks.kept)


def test_a_merge_takes_no_tagged_value_by_keyword():
    class Net(FlowModule):
        def flow(self, x):
            return x.tag("low").through(torch.cos).using(other="low").merge(Cat(dim=1))

    with pytest.raises(FlowError, match="merge has no parameter `other`"):
        Net()(torch.ones(1, 1))


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
