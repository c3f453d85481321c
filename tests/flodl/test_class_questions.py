"""Numbers and tensors where torch expects a number, and who is told that a Flow is a tensor."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import FlowModule, call
from flodl.errors import FlowError

VALUES = [3, 2.0, torch.tensor(2), torch.tensor(1.5)]
NUMBERS = """
torch.full((2,), n)
torch.arange(n)
torch.arange(0, n)
torch.zeros(n)
torch.linspace(0, 1, n)
torch.add(x, x, alpha=n)
torch.add(self.w, self.w, alpha=n)
self.w.add(self.w, alpha=n)
F.one_hot(torch.tensor([0, 1]), n)
self.w.new_full((2,), n)
self.w.new_zeros(n)
torch.chunk(self.w, n)
torch.full_like(self.w, n)
torch.addcmul(self.w, self.w, self.w, value=n)
torch.scalar_tensor(n)
self.w.unfold(0, n, 1)
torch.diag(self.w, n)
torch.histc(self.w.detach(), n)
torch.celu(self.w, n)
torch.nan_to_num(self.w, n)
torch.clamp(x, max=n)
torch.where(self.w > 0, n, 0)
torch.pow(2, n)
torch.roll(self.w, n)
self.w[:n]
self.w ** n
""".strip().splitlines()


def twins(body, parameters="x, n"):
    """Make one class twice: with `forward` and with `flow`."""

    def weights(self):
        super(type(self), self).__init__()
        self.w = nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

    made = []
    for base, name in ((nn.Module, "forward"), (FlowModule, "flow")):
        space = {"torch": torch, "F": F, "nn": nn}
        exec(f"def {name}(self, {parameters}):\n    {body}\n", space)
        made.append(type("Net", (base,), {"__init__": weights, name: space[name]})())
    return made


def result(model, *inputs):
    torch.manual_seed(0)
    try:
        return repr(model(*inputs))
    except Exception as error:
        return type(error)


@pytest.mark.torch
@pytest.mark.parametrize("expression", NUMBERS)
def test_a_number_may_be_a_tensor(expression):
    plain, flow = twins(f"return {expression}")
    x = torch.ones(2)
    for value in (*VALUES, *VALUES[:2]):
        assert result(flow, x, value) == result(plain, x, value)


QUESTIONS = [
    "return isinstance(x, torch.Tensor)",
    "return isinstance(x if self.training else x + 1, (int, torch.Tensor))",
    "return isinstance(x, nn.Parameter), isinstance(self.w, nn.Parameter)",
    "return isinstance(x.size(0), int), isinstance(x.shape, tuple)",
    "return isinstance(\n        x,\n        torch.Tensor,\n    )",
    "return x.__class__ is torch.Tensor",
    "return torch.is_tensor(x)",
    "return [isinstance(part, torch.Tensor) for part in (x, 1, None)]",
    "return torch.full((2,), 1 if isinstance(x, torch.Tensor) else 2)",
    "match x:\n        case torch.Tensor():\n            return 1\n        case _:\n            return 2",
]


@pytest.mark.torch
@pytest.mark.parametrize("body", QUESTIONS)
def test_python_hears_the_class_of_the_value(body):
    plain, flow = twins(body, "x")
    x = torch.ones(2, 3)
    assert result(flow, x) == result(plain, x)


CONSTRUCTORS = [
    "torch.Tensor(x.size(0))",
    "torch.FloatTensor(x)",
    "torch.LongTensor([x.size(0), 4])",
]


@pytest.mark.torch
@pytest.mark.parametrize("expression", CONSTRUCTORS)
def test_a_legacy_constructor_says_what_to_write(expression):
    _, flow = twins(f"return {expression}", "x")
    with pytest.raises(FlowError, match=r"write call\(torch\.\w+, \.\.\.\)"):
        flow(torch.ones(2, 3))


SIZES = [
    "x.new(torch.Size([x.size(0)])).zero_()",
    "torch.zeros(torch.Size([x.size(0)]) + x.shape[1:])",
    "torch.ones(torch.Size((x.size(0), 2)))",
    "torch.Size([x.size(0), 2])",
    "x.new(torch.Size([2])).zero_()",
    "torch.Size(x.shape).numel() * x",
]


@pytest.mark.torch
@pytest.mark.parametrize("expression", SIZES)
def test_a_size_made_of_sizes_stays_one(expression):
    plain, flow = twins(f"return {expression}", "x")
    for count in (2, 3, 2):
        x = torch.ones(count, 3)
        assert result(flow, x) == result(plain, x)


ASKED = [
    "return x * n if n > 1 else x",
    "return sum((x + step for step in range(n)), x)",
    "return x + 1 if n else x",
    "return [x, x + 1, x + 2, x + 3][n] + x[:n].sum()",
    "return x.repeat(int(n / 2) + 1) * float(n)",
    "return x if not n or n == 3 else x + 1",
    "while n > 0:\n        x, n = x + n, n - 1\n    return x",
]


@pytest.mark.torch
@pytest.mark.parametrize("body", ASKED)
def test_an_argument_may_be_a_number_or_a_tensor(body):
    plain, flow = twins(body)
    x = torch.ones(4)
    for value in (3, 2, 0, 2):
        for given in (value, torch.tensor(value)):
            assert result(flow, x, given) == result(plain, x, given)


@pytest.mark.torch
def test_a_tensor_of_numbers_is_asked_in_every_call():
    plain, flow = twins("return x[:, : max(n)], torch.arange(min(n)), [int(k) for k in n]")
    x = torch.ones(2, 5)
    for lengths in ([2, 3], [4, 1], [3, 2], [2, 3]):
        for given in (lengths, torch.tensor(lengths)):
            assert result(flow, x, given) == result(plain, x, given)


@pytest.mark.torch
@pytest.mark.parametrize(
    "question", ["x.sum() > 0", "x[0, 0] > 0", "self.w[0] > 0", "n * self.w[0]"]
)
def test_a_question_about_other_tensors_is_still_an_error(question):
    _, flow = twins(f"return x if {question} else -x")
    with pytest.raises(FlowError, match="the truth of a tensor"):
        flow(torch.ones(2, 2), torch.tensor(1.0))


NUMBERS_OF_PYTHON = [
    "return round(x.size(0) / 3, 1), round(x.size(1) * 0.6), divmod(x.size(0), 2), divmod(7, x.size(0))",
    "table = {1: x, 2: x + 1, 3: x - 1}\n    return table[x.size(0)], x.size(1) in table",
    "return {x.size(0): x}[x.size(0)], {(x.size(0), 'a'): x}[x.size(0), 'a']",
]


@pytest.mark.torch
@pytest.mark.parametrize("body", NUMBERS_OF_PYTHON)
def test_a_size_is_a_number_to_python(body):
    plain, flow = twins(body, "x")
    for count in (2, 3, 1, 2):
        x = torch.ones(count, 3)
        assert result(flow, x) == result(plain, x)


@pytest.mark.torch
def test_value_methods_of_numpy_are_those_of_numpy():
    body = "return torch.as_tensor(step(step(x, 'numpy').max(), 'item') * x)"
    plain, flow = twins(body, "x")
    names = {
        "forward": lambda value, name: getattr(value, name)(),
        "flow": lambda value, name: value.through(getattr(torch.Tensor, name)),
    }
    for model, kind in ((plain, "forward"), (flow, "flow")):
        getattr(type(model), kind).__globals__["step"] = names[kind]
    for last in (3.0, 5.0, 3.0):
        x = torch.tensor([1.0, last])
        assert result(flow, x) == result(plain, x)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["exp", "mean", "neg"])
def test_a_method_of_a_value_is_a_stage(name):
    _, flow = twins(f"return x + call(getattr(x, {name!r})) + x.through(x.add)", "x")
    type(flow).flow.__globals__["call"] = call
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(flow(x), x + getattr(x, name)() + (x + x))


@pytest.mark.torch
@pytest.mark.parametrize(
    "body",
    [
        "return x + 1 if hasattr(x, 'decoded') else x * 2",
        "return x * getattr(x, 'factor', 3)",
        "return x.T if hasattr(x, 'T') else x",
    ],
)
def test_what_a_value_lacks_is_no_step(body):
    plain, flow = twins(body, "x")
    for size in (2, 2, 3):
        x = torch.randn(size, 2)
        assert torch.equal(flow(x), plain(x))
