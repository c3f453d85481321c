"""A port keeps the order of operands and of evaluation, so strides, bits and draws are those of the original.

The result of an operator has the strides of its first operand, and a dropout draws its mask in the order of
the memory: a sum written the other way round is another one as soon as an input is not contiguous.
"""

import textwrap

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.porter.port_twins import Twins

pytestmark = pytest.mark.torch

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn


class Turned(nn.Module):
    def forward(self, x):
        return x.transpose(-1, -2).contiguous().transpose(-1, -2) * 2


class Last(nn.Module):
    def forward(self, x):
        return (x * 3).contiguous(memory_format=torch.channels_last)


class Widening(nn.Module):
    def forward(self, x):
        return x.double() * 2


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand(())


class Squeezing(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x.mean((2, 3), keepdim=True))


class Writing(nn.Module):
    def forward(self, x):
        x.mul_(1.5)
        return x + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.turn = Turned()
        self.last = Last()
        self.wide = Widening()
        self.noise = Noisy()
        self.squeeze = Squeezing()
        self.write = Writing()
        self.drop = nn.Dropout(0.5)
        self.keep = nn.Identity()
        self.flag = True
        self.down = None
        self.layers = nn.ModuleList([Turned(), nn.Conv2d(4, 4, 1), nn.Dropout(0.5)])
        self.picks = 0

    def pick(self):
        self.picks += 1
        return self.layers[self.picks % 2]

    def forward(self, x):
"""
BODIES = {
    "f(x) + x": "x = self.turn(x) + x\nreturn self.drop(x)",
    "x + f(x)": "x = x + self.turn(x)\nreturn self.drop(x)",
    "in place": "identity = x\nout = self.turn(x)\nout += identity\nreturn self.drop(out)",
    "in place on a new value": "identity = x\nout = self.keep(x * 1)\nout += self.conv(identity)\n"
    "return self.drop(out)",
    "in place of another dtype": "out = x * 1\nout = self.conv(out)\nout += self.wide(x).float()\nreturn out",
    "wider identity": "identity = self.wide(x)\nout = self.turn(x)\nout += identity\nreturn self.drop(out)",
    "named skip": "skip = x\nout = self.turn(self.conv(x))\nreturn self.drop(out + skip)",
    "named skip first": "skip = x\nout = self.turn(self.conv(x))\nreturn self.drop(skip + out)",
    "two ways": "out = self.turn(x)\nout = out + self.last(x)\nreturn self.drop(out)",
    "two ways, the second first": "skip = self.last(x)\nout = self.turn(x)\nreturn self.drop(out + skip)",
    "chosen way": "identity = x\nout = self.turn(x)\nif self.down is not None:\n    identity = self.down(x)\n"
    "return self.drop(out + identity)",
    "three ways": "return self.drop(self.turn(x) + self.noise(x) + self.last(x))",
    "product": "w = self.turn(x)\nreturn self.drop(w * x)",
    "product, the value first": "x = self.keep(x)\nx = x * self.turn(x)\nreturn self.drop(x)",
    "excitation": "x = self.turn(x)\nw = self.squeeze(x)\nx = w * x\nreturn self.drop(x)",
    "excitation, the value first": "x = self.turn(x)\nx = x * self.squeeze(x)\nreturn self.drop(x)",
    "torch.mul": "x = torch.mul(self.turn(x), self.last(x))\nreturn self.drop(x)",
    "torch.max": "x = torch.max(self.turn(x), self.last(x))\nreturn self.drop(x)",
    "cat": "x = torch.cat([self.turn(x), self.last(x)], 1)\nreturn self.drop(x)",
    "cat of a list": "x = torch.cat([layer(x) for layer in self.layers], dim=1)\nreturn self.drop(x)",
    "stack": "x = torch.stack([self.turn(x), self.last(x)], 1)\nreturn self.drop(x)",
    "sum of a list": "x = x + sum([layer(x) for layer in self.layers])\nreturn self.drop(x)",
    "joined slices": "parts = [self.drop(x[:, i]).unsqueeze(1) for i in range(x.size(1))]\n"
    "return torch.cat(parts, dim=1)",
    "stacked slices": "return torch.stack([self.turn(x[:, i]) for i in range(x.size(1))], dim=1)",
    "kept sizes": "n = x.size(0)\ny = self.conv(x)\nreturn y.reshape(n, -1)",
    "written in between": "n = x.sum()\ny = self.write(x)\nreturn y * n + x",
    "picked first": "return self.pick()(self.noise(x)) + self.pick()(x)",
    "rounds": "for _ in range(3):\n    x = self.drop(self.turn(x))\nreturn x",
    "encoder": "a = self.turn(x)\nb = self.last(a)\nc = torch.cat([b, self.drop(b)], 1)\n"
    "return torch.cat([a, c], 1)",
}  # fmt: skip


def text_with(body):
    return HEAD.lstrip() + textwrap.indent(body, " " * 8) + "\n"


def formats():
    """Yield a value in several memory formats."""
    torch.manual_seed(1)
    x = torch.randn(2, 4, 3, 5)
    yield "contiguous", x
    yield "channels last", x.contiguous(memory_format=torch.channels_last)
    yield "transposed", x.transpose(2, 3).contiguous().transpose(2, 3)
    yield "turned around", x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    yield "expanded", torch.randn(1, 4, 3, 5).expand(2, 4, 3, 5)
    yield "strided", torch.randn(2, 4, 6, 10)[:, :, ::2, ::2]


def call_in_every_format(twins, gradients=True):
    for on in (True, False):
        twins.train(on)
        for _, value in formats():
            twins.call(value, gradients=gradients)


@pytest.mark.parametrize("name", BODIES)
def test_port_on_any_memory_format_gives_the_same_values_strides_and_draws(porter, tmp_path, name):
    twins = Twins(porter, tmp_path, text_with(BODIES[name]))
    assert "class Net(FlowModule)" in twins.text
    assert twins.call(next(formats())[1])[0] == "returns"
    call_in_every_format(twins)


@pytest.mark.parametrize("body", [BODIES["in place"], BODIES["f(x) + x"], BODIES["two ways"]])
def test_port_under_autocast_keeps_the_dtype_of_a_sum(porter, tmp_path, body):
    twins = Twins(porter, tmp_path, text_with(body.replace("self.turn", "self.conv")))
    for _, value in formats():
        with torch.autocast("cpu", torch.bfloat16):
            assert twins.call(value, gradients=False)[0] == "returns"


LAYERS = ["conv", "turn", "last", "noise", "drop", "keep"]
NAMES = ["x", "y", "out", "identity", "skip"]


@st.composite
def values(draw, known, depth=0):
    name = draw(st.sampled_from(sorted(known)))
    layer = draw(st.sampled_from(LAYERS))
    kind = draw(st.integers(0, 9 if depth < 2 else 1))
    if kind == 0:
        return name
    if kind <= 3:
        return f"self.{layer}({draw(values(known, depth + 1))})"
    left, right = draw(values(known, depth + 1)), draw(values(known, depth + 1))
    return {
        4: f"{left} + {right}",
        5: f"({left}) * ({right})",
        6: f"torch.stack([{left}, {right}], 1).sum(1)",
        7: f"torch.cat([{left}, {right}], dim=1)[:, :4]",
        8: f"torch.max({left}, {right})",
        9: f"self.squeeze({left}) * ({right})",
    }[kind]


@st.composite
def bodies(draw):
    known, lines = {"x"}, []
    for _ in range(draw(st.integers(1, 6))):
        if len(known) > 1 and draw(st.integers(0, 3)) == 0:
            target = draw(st.sampled_from(sorted(known - {"x"})))
            sign = draw(st.sampled_from(["+=", "*="]))
            lines.append(f"{target} = {target} * 1")
            lines.append(f"{target} {sign} {draw(values(known))}")
            continue
        target = draw(st.sampled_from(NAMES))
        line = f"{target} = {draw(values(known))}"
        chosen = target in known and draw(st.integers(0, 4)) == 0
        lines += (
            [f"if {draw(st.sampled_from(['self.flag', 'self.training']))}:", f"    {line}"]
            if chosen
            else [line]
        )
        known.add(target)
    lines.append(f"return self.drop({draw(st.sampled_from(sorted(known)))})")
    return "\n".join(lines)


@pytest.mark.slow
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(body=bodies())
def test_made_up_port_on_any_memory_format_gives_the_same(porter, tmp_path, body):
    twins = Twins(porter, tmp_path, text_with(body))
    call_in_every_format(twins)
